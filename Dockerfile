# syntax=docker/dockerfile:1

# Rust 1.95 or later. The image includes a C compiler; asap needs no CMake.
FROM rust:1.95.0-slim-trixie AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --features candle && cp target/release/asap /usr/local/bin/asap

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 asap
COPY --from=build /usr/local/bin/asap /usr/local/bin/asap
COPY LICENSE /usr/share/doc/asap/LICENSE
USER asap
WORKDIR /home/asap
ENTRYPOINT ["asap"]

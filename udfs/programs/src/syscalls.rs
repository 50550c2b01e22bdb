//! The system calls that a program is refused. All others are allowed: Landlock and the limits bind them.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Refused in all cases.
const REFUSED: &[i64] = &[
    // Other hosts and processes. A pair of sockets stays, for event loops.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    // Memory that outlives the process, or that its limit does not cover.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    // Attributes of files, which Landlock leaves open, and truncation, which its first versions do.
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // The kernel and the machine.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Limits.
    libc::SYS_setrlimit,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
];
#[cfg(target_arch = "aarch64")]
const REFUSED_HERE: &[i64] = &[];

// New calls have the same numbers on all machines; libc does not name them yet.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

/// The bit of calls with pointers of 32 bits, and the numbers that only they have.
#[cfg(target_arch = "x86_64")]
const X32: (i64, std::ops::RangeInclusive<i64>) = (0x4000_0000, 512..=547);

/// Requests that change the attributes of a file (`FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`), type into a terminal, or choose
/// the process that a socket signals (`FIOSETOWN`, `SIOCSPGRP`).
const IOCTLS: [u64; 5] = [0x4008_6602, 0x401c_5820, 0x5412, 0x8901, 0x8902];
/// Choose the process that a file signals, and the signal: `F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`.
const FCNTLS: [u64; 3] = [8, 10, 15];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub(crate) fn filters() -> Result<Vec<BpfProgram>, Error> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    let threads = libc::CLONE_THREAD as u64;
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_clone, vec![when(0, SeccompCmpOp::MaskedEq(threads), 0)?]);
    rules.insert(libc::SYS_tgkill, vec![when(0, SeccompCmpOp::Ne, own)?]);
    rules.insert(libc::SYS_socketpair, vec![when(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?]);
    rules.insert(libc::SYS_sendto, vec![when(4, SeccompCmpOp::Ne, 0)?]);
    rules.insert(libc::SYS_prlimit64, vec![when(2, SeccompCmpOp::Ne, 0)?]);
    for (call, requests) in [(libc::SYS_ioctl, &IOCTLS[..]), (libc::SYS_fcntl, &FCNTLS)] {
        let refused = requests.iter().map(|request| when(1, SeccompCmpOp::Eq, *request));
        rules.insert(call, refused.collect::<Result<_, _>>()?);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let (bit, only) = X32;
        let twins: Rules = rules.iter().map(|(call, rules)| (call | bit, rules.clone())).collect();
        rules.extend(twins);
        rules.extend(only.map(|call| (call | bit, Vec::new())));
    }
    // The C library then starts a thread with clone, whose flags a filter can read.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![filter(rules, libc::EPERM)?, filter(clone3, libc::ENOSYS)?])
}

/// Matches the low 32 bits of an argument, or all of a pointer.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, Error> {
    let length =
        if value == 0 && operator == SeccompCmpOp::Ne { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
    Ok(SeccompRule::new(vec![SeccompCondition::new(argument, length, operator, value)?])?)
}

fn filter(rules: Rules, errno: i32) -> Result<BpfProgram, Error> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

from asap._cli import main

main()

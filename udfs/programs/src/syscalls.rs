//! The system calls that a program is refused. All others are allowed: Landlock and the limits bind them.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Refused in all cases.
const REFUSED: &[i64] = calls! {
    // Other hosts and processes. A pair of sockets stays, for event loops.
    SYS_socket SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_sendmsg SYS_sendmmsg SYS_kill SYS_tkill
    SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_pidfd_open SYS_pidfd_getfd SYS_pidfd_send_signal SYS_ptrace
    SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_kcmp SYS_setpriority SYS_ioprio_set
    SYS_sched_setscheduler SYS_sched_setparam SYS_sched_setattr SYS_sched_setaffinity
    // Memory, semaphores and queues of other processes. Their numbers are small, so one needs no call that gets them.
    SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semctl SYS_semop SYS_semtimedop SYS_msgget SYS_msgsnd
    SYS_msgrcv SYS_msgctl SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify SYS_mq_getsetattr
    // Memory that the limit of the process does not cover.
    SYS_memfd_create SYS_memfd_secret SYS_vmsplice
    // What Landlock leaves open: attributes of files, names of new files, locks that others wait for. Its first versions
    // also leave open truncation.
    SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_inotify_init1
    SYS_inotify_add_watch SYS_flock SYS_sync SYS_syncfs
    SYS_truncate SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_utimensat SYS_setxattr SYS_lsetxattr
    SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr
    // The kernel and the machine.
    SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register
    SYS_io_setup SYS_add_key SYS_request_key SYS_keyctl SYS_unshare SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot
    SYS_open_tree SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr
    SYS_name_to_handle_at SYS_open_by_handle_at SYS_fanotify_init SYS_quotactl SYS_swapon SYS_swapoff SYS_reboot
    SYS_syslog SYS_acct SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_settimeofday
    SYS_clock_settime SYS_clock_adjtime SYS_adjtimex SYS_sethostname SYS_setdomainname
    // Limits.
    SYS_setrlimit
};

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = calls! {
    SYS_fork SYS_vfork SYS_inotify_init SYS_chmod SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat SYS_iopl SYS_ioperm
    SYS_modify_ldt SYS_kexec_file_load
};
#[cfg(target_arch = "aarch64")]
const REFUSED_HERE: &[i64] = &[];

/// fchmodat2, statmount, listmount, setxattrat, getxattrat, listxattrat, removexattrat and file_setattr: new calls with the
/// same numbers on all machines, which libc does not name yet.
const REFUSED_WITHOUT_NAME: &[i64] = &[452, 457, 458, 463, 464, 465, 466, 469];

/// The bit of calls with pointers of 32 bits, and the numbers that only they have.
#[cfg(target_arch = "x86_64")]
const X32: (i64, std::ops::RangeInclusive<i64>) = (0x4000_0000, 512..=547);

/// The only requests to files and terminals. Others change attributes of files that are open for reading: `TCGETS`, `TIOCGWINSZ`,
/// `FIONREAD`, `FIONBIO`, `FIONCLEX`, `FIOCLEX`.
const IOCTLS: [u64; 6] = [0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451];
/// Choose the process that a file signals, and the signal: `F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`. Make others wait for a file:
/// `F_SETLK`, `F_SETLKW`, `F_OFD_SETLK`, `F_OFD_SETLKW`, `F_SETLEASE`. Watch a folder, and change hints of a file: `F_NOTIFY`,
/// `F_SET_RW_HINT`, `F_SET_FILE_RW_HINT`.
const FCNTLS: [u64; 11] = [6, 7, 8, 10, 15, 37, 38, 1024, 1026, 1036, 1038];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub(crate) fn filters() -> Result<Vec<BpfProgram>, Error> {
    let refused = [REFUSED, REFUSED_HERE, REFUSED_WITHOUT_NAME].concat();
    let mut rules: Rules = refused.into_iter().map(|call| (call, Vec::new())).collect();
    let threads = libc::CLONE_THREAD as u64;
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_clone, vec![when(0, SeccompCmpOp::MaskedEq(threads), 0)?]);
    rules.insert(libc::SYS_tgkill, vec![when(0, SeccompCmpOp::Ne, own)?]);
    rules.insert(libc::SYS_socketpair, vec![when(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?]);
    rules.insert(libc::SYS_sendto, vec![when(4, SeccompCmpOp::Ne, 0)?]);
    rules.insert(libc::SYS_prlimit64, vec![when(2, SeccompCmpOp::Ne, 0)?]);
    // The signal at the end of asap stays.
    rules.insert(libc::SYS_prctl, vec![when(0, SeccompCmpOp::Eq, libc::PR_SET_PDEATHSIG as u64)?]);
    let refused = FCNTLS.iter().map(|request| when(1, SeccompCmpOp::Eq, *request));
    rules.insert(libc::SYS_fcntl, refused.collect::<Result<_, _>>()?);
    let others = IOCTLS.iter().map(|request| condition(1, SeccompCmpOp::Ne, *request));
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(others.collect::<Result<_, _>>()?)?]);
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
    Ok(SeccompRule::new(vec![condition(argument, operator, value)?])?)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    let length =
        if value == 0 && operator == SeccompCmpOp::Ne { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
    Ok(SeccompCondition::new(argument, length, operator, value)?)
}

fn filter(rules: Rules, errno: i32) -> Result<BpfProgram, Error> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

import type { Host } from './host.ts'

/** An attempt to break out. It prints the secret or ESCAPED if it succeeds. */
export interface Escape {
  name: string
  command: string
  timeoutMs?: number
  /** Whether it may succeed in a file system of the sandbox’s own. The host has nothing of it. */
  isInside?: true
  /** Whether it succeeds outside of a sandbox, without harm: what shows that it could. */
  worksOutside?: true
}

/** Calls a system call by its numbers on x86-64 and AArch64. Prints ESCAPED unless it fails. */
const call = (x64: number, arm64: number, ...parameters: (number | string)[]): string =>
  `n=${x64}; [ "$(uname -m)" = aarch64 ] && n=${arm64}; ` +
  `N=$n perl -e 'my $b = "\\0" x 4096; my $r = syscall(${['$ENV{N}+0', ...parameters].join(', ')}); ` +
  `print "ESCAPED $r" if $r != -1'`

const unlessFails = (command: string) => `${command} && echo ESCAPED`

/** Lists every attempt. */
export const listEscapes = (host: Host): Escape[] => [
  ...listReads(host),
  ...listTraversals(host),
  ...listConnections(host),
  ...listWrites(host),
  ...listPowers(),
  ...listOutlivers(host),
]

function listReads({ file, directory }: Host): Escape[] {
  return [
    { name: 'a file of the host', command: `cat ${file}`, worksOutside: true },
    {
      name: 'a directory of the host',
      command: unlessFails(`ls ${directory}`),
      worksOutside: true,
    },
    {
      name: 'a search for it',
      command: `find / -maxdepth 3 -name secret.txt -exec cat {} + 2>/dev/null`,
    },
    { name: 'the root of process 1', command: `cat /proc/1/root${file}` },
    { name: 'the root of its parent', command: `cat /proc/$PPID/root${file}` },
    { name: 'the roots of all', command: `for p in /proc/[0-9]*; do cat $p/root${file}; done` },
    { name: 'the directory of process 1', command: `cd /proc/1/cwd && cat ..${file}` },
    { name: 'environments', command: `cat /proc/*/environ; env` },
    { name: 'descriptors of others', command: `cat /proc/1/fd/* </dev/null` },
    {
      name: 'descriptors of its own',
      command: 'for f in /proc/self/fd/[3-9]; do [ -e $f ] && readlink $f && echo ESCAPED; done',
    },
    { name: 'a symbolic link', command: `ln -s ${file} link; cat link`, worksOutside: true },
    { name: 'a link to the root', command: `ln -s / all; cat all${file}`, worksOutside: true },
    { name: 'a hard link', command: `ln ${file} hard && cat hard` },
    { name: 'the shadow file', command: unlessFails('cat /etc/shadow') },
    { name: 'users of the host', command: 'grep -q daemon /etc/passwd && echo ESCAPED' },
    { name: 'the data of root', command: unlessFails('ls /root') },
    { name: 'kernel memory', command: unlessFails('head -c 1 /proc/kcore /dev/mem /dev/kmem') },
    ...['cmdline', 'modules', 'kallsyms', 'keys', 'timer_list'].map(name => ({
      name: `/proc/${name} of the host`,
      command: `[ -n "$(head -c 1 /proc/${name} 2>/dev/null)" ] && echo ESCAPED`,
      ...(name === 'cmdline' ? { worksOutside: true as const } : {}),
    })),
    { name: 'the kernel log', command: unlessFails('dmesg') },
    { name: 'disks', command: unlessFails('head -c 1 /dev/vda /dev/sda /dev/nvme0n1') },
    { name: 'the hardware', command: unlessFails('ls /sys/class') },
    { name: 'control groups', command: unlessFails('ls /sys/fs/cgroup/*') },
    { name: 'paths in the mount table', command: `grep -F ${directory} /proc/self/mountinfo` },
    {
      name: 'processes of the host',
      command: 'ls /proc | grep -cE "^[0-9]{4}" | grep -v "^0" && echo ESCAPED',
    },
  ]
}

function listTraversals({ file }: Host): Escape[] {
  const up = '../'.repeat(12)
  const path = file.slice(1)
  return [
    ...[`${up}${path}`, `./${up}${path}`, `d/${up}${path}`, `/proc/self/root/${path}`],
    ...[`${up}${path}`.replaceAll('/', '//'), `/home/sandbox/${up}${path}`],
    ...[`${up}${path}`.replaceAll('../', '..%2f'), `${up}${path}`.replaceAll('../', '%2e%2e/')],
    ...[`${up}${path}`.replaceAll('/', '\\\\'), `${up}${path}`.replaceAll('..', '....')],
    ...[`${up}${path}`.replaceAll('../', '..\\xc0\\xaf'), `${up}${path}\\n`, `${up}${path}\\0.txt`],
  ].map(one => ({
    name: `the path ${one.slice(0, 24)}`,
    command: `mkdir -p d; cat "$(printf '${one}')"`,
  }))
}

function listConnections({ port, udpPort, socket, file }: Host): Escape[] {
  const perl = (family: string, address: string) =>
    `perl -MSocket -e 'socket(S, ${family}, SOCK_STREAM, 0) && connect(S, ${address}) && print "ESCAPED"'`
  return [
    { name: 'TCP by bash', command: `cat < /dev/tcp/127.0.0.1/${port}`, worksOutside: true },
    { name: 'TCP by perl', command: perl('PF_INET', `sockaddr_in(${port}, INADDR_LOOPBACK)`) },
    { name: 'TCP by IPv6', command: `cat < /dev/tcp/::1/${port}` },
    { name: 'TCP to the world', command: unlessFails('timeout 2 bash -c "< /dev/tcp/1.1.1.1/53"') },
    { name: 'UDP', command: `echo x > /dev/udp/127.0.0.1/${udpPort} && echo sent` },
    {
      name: 'HTTP',
      command: `curl -s http://127.0.0.1:${port}; wget -qO- http://127.0.0.1:${port}`,
    },
    { name: 'names', command: unlessFails('getent hosts example.com') },
    {
      name: 'a local socket',
      command: perl('PF_UNIX', `sockaddr_un("${socket}")`),
      worksOutside: true,
    },
    {
      name: 'a local socket through process 1',
      command: perl('PF_UNIX', `sockaddr_un("/proc/1/root${file}")`),
    },
    {
      name: 'raw packets',
      command: `perl -MSocket -e 'socket(S, PF_INET, SOCK_RAW, 1) && print "ESCAPED"'`,
    },
    { name: 'the hypervisor', command: call(41, 198, 40, 1, 0) },
    { name: 'the kernel’s ciphers', command: call(41, 198, 38, 5, 0) },
    { name: 'interfaces', command: `tail -n +3 /proc/net/dev | grep -v '^ *lo:' && echo ESCAPED` },
    { name: 'a new interface', command: unlessFails('ip link add x type dummy') },
  ]
}

/** Where a file would be one of the system. */
export const PLACES = [
  ...['/', '/usr/', '/usr/bin/', '/etc/', '/lib/', '/dev/', '/proc/', '/sys/', '/var/'],
]

function listWrites({ directory, hostname }: Host): Escape[] {
  const attempts: Escape[] = [
    ...PLACES.map(place => ({
      name: `a file in ${place}`,
      command: unlessFails(`touch ${place}pwned`),
    })),
    { name: 'a file of the host', command: unlessFails(`touch ${directory}/pwned`) },
    { name: 'a file behind a link', command: `ln -s ${directory} out; echo x > out/pwned` },
    { name: 'a copy behind a link', command: `ln -s ${directory} to; cp /bin/bash to/pwned` },
    { name: 'the core pattern', command: unlessFails('echo x > /proc/sys/kernel/core_pattern') },
    {
      name: 'the host’s name',
      command: `${unlessFails('echo pwned > /proc/sys/kernel/hostname')}; hostname ${hostname}x`,
    },
    { name: 'a magic key', command: unlessFails('echo h > /proc/sysrq-trigger') },
    { name: 'the clock', command: unlessFails('date -s 2001-01-01') },
    { name: 'a writable system', command: unlessFails('mount -o remount,rw /') },
    { name: 'preloaded code', command: unlessFails('echo x > /etc/ld.so.preload') },
    { name: 'a terminal', command: unlessFails('echo x > /dev/tty') },
    { name: 'a device node', command: unlessFails('mknod disk b 254 0') },
    { name: 'a memory device', command: unlessFails('mknod mem c 1 1') },
  ]
  return attempts.map(attempt => ({ ...attempt, isInside: true as const }))
}

function listPowers(): Escape[] {
  return [
    { name: 'a bind mount', command: 'mkdir -p m; mount --bind / m && echo ESCAPED' },
    { name: 'a file system', command: 'mkdir -p m; mount -t tmpfs x m && echo ESCAPED' },
    { name: 'a user namespace', command: unlessFails('unshare -Ur true') },
    { name: 'a nested sandbox', command: unlessFails('bwrap --ro-bind / / true') },
    { name: 'another’s namespaces', command: unlessFails('nsenter -t 1 -m -p true') },
    { name: 'another root', command: unlessFails('chroot / true') },
    { name: 'root by su', command: unlessFails('su -c true < /dev/null') },
    { name: 'root by perl', command: `perl -e '$< = $> = 0; print "ESCAPED" if $> == 0'` },
    {
      name: 'root by a program',
      command: 'cp /bin/bash b; chmod 4755 b; ./b -p -c \'[ "$EUID" = 0 ] && echo ESCAPED\'',
    },
    { name: 'root’s files', command: 'touch f; chown 0 f && echo ESCAPED' },
    { name: 'priority', command: unlessFails('renice -n -20 $$') },
    { name: 'more processes', command: unlessFails('prlimit --nproc=100000 --pid $$') },
    { name: 'larger files', command: unlessFails('bash -c "ulimit -f unlimited"') },
    { name: 'a debugger', command: call(101, 117, 16, 1, 0, 0) },
    { name: 'another’s memory', command: call(310, 270, 1, '$b', 1, '$b', 1, 0) },
    { name: 'a file by its handle', command: call(304, 265, -100, '$b', 0) },
    { name: 'the kernel’s keys', command: call(250, 219, 0, -3, 1, 0, 0) },
    { name: 'a program in the kernel', command: call(321, 280, 0, '$b', 48) },
    { name: 'performance counters', command: call(298, 241, '$b', 0, -1, -1, 0) },
    { name: 'faults of others', command: call(323, 282, 1) },
    { name: 'the kernel’s queues', command: call(425, 425, 8, '$b') },
    { name: 'a clone in a new namespace', command: call(435, 435, '$b', 88) },
    { name: 'memory without a file', command: call(319, 279, '"x"', 0) },
    { name: 'memory without a process', command: call(29, 194, 0, 4096, 0o1600) },
    { name: 'a module', command: call(175, 105, '$b', 0, '""') },
    { name: 'swap', command: call(167, 224, '"/home/sandbox/f"', 0) },
    { name: 'a restart', command: call(169, 142, 0, 0, 0, 0) },
  ]
}

function listOutlivers({ marker }: Host): Escape[] {
  const sleep = `sleep ${marker}`
  const attempts: Escape[] = [
    { name: 'a background process', command: `${sleep} & echo $!` },
    { name: 'one without its terminal', command: `nohup ${sleep} > /dev/null 2>&1 & disown -a` },
    {
      name: 'one in a session of its own',
      command: `setsid ${sleep} > /dev/null 2>&1 < /dev/null &`,
    },
    {
      name: 'a grandchild',
      command: `perl -e 'fork and exit; fork and exit; exec "sleep", ${marker}' > /dev/null 2>&1`,
    },
    {
      name: 'one that hears no signal',
      command: `(trap "" TERM HUP INT; ${sleep}) & trap "" TERM; ${sleep}`,
    },
    { name: 'one that is stopped', command: `${sleep} & kill -STOP $!` },
    { name: 'the death of everything', command: 'kill -9 -1' },
    { name: 'the death of process 1', command: 'kill -9 1; kill -9 $PPID; sleep 0.01; true' },
    { name: 'a task for later', command: unlessFails(`echo ${sleep} | at now; crontab -l`) },
  ]
  return attempts.map(attempt => ({ ...attempt, timeoutMs: 300 }))
}

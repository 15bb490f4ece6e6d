/**
 * A process that is alone in a control group that was given to it: `bun bounded.ts GROUP try|die|look`.
 * It runs commands that want more than a container has, and prints what came of them as JSON.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { bubblewrap } from '../../../src/network/sandboxes/bubblewrap.ts'

const [group = '', work = ''] = process.argv.slice(2)
const MIB = 1024 * 1024
const LIMITS = { homeBytes: 16 * MIB, memoryBytes: 64 * MIB, processes: 12, cpus: 0.5 }

/** Starts processes of 24 MiB each, one after the other, and counts those that live. */
const HOLD = `perl -MPOSIX=:sys_wait_h -e '
  for (1 .. 4) { pipe(my $r, my $w); my $p = fork;
    if (!$p) { open F, "/dev/zero"; sysread F, $x, 24 * 2 ** 20; syswrite $w, "h"; sleep }
    close $w; sysread $r, my $b, 1; push @p, $p }
  print scalar(grep { waitpid($_, WNOHANG) == 0 } @p); kill 9, @p'`
const BURN = 'perl -e \'1 while (times)[0] < 0.3; print "burnt"\''

const obstacle = await bubblewrap.findObstacle()
const listGroups = () => readdirSync(group).filter(name => name.startsWith('container-'))
const result: Record<string, unknown> = { obstacle, missing: bubblewrap.missing }
if (work === 'look') result.groups = listGroups()
else {
  const box = await bubblewrap.open(LIMITS)
  const run = (text: string) =>
    box.run({ text, timeoutMs: 60_000, maxOutput: 100, cancellation: new Cancellation() })
  await run('printf kept > file')
  if (work === 'die') process.kill(process.pid, 'SIGKILL')
  const [name = ''] = listGroups()
  result.held = Number((await run(HOLD)).stdout)
  result.burnt = (await run(BURN)).stdout
  result.throttled = /nr_throttled (\d+)/.exec(
    readFileSync(join(group, name, 'cpu.stat'), 'utf8'),
  )?.[1]
  result.file = (await run('cat file')).stdout
  await box.close()
  result.groups = listGroups()
}
result.own =
  readFileSync(join(group, 'gateway/cgroup.procs'), 'utf8').trim() === String(process.pid)
process.stdout.write(JSON.stringify(result))

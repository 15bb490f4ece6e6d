import { readdirSync, readFileSync } from 'node:fs'

// The unit of times in /proc, on every Linux that Bun runs on.
const MICROSECONDS_PER_TICK = 10_000

/**
 * Reads the CPU time so far, in microseconds: user and system, all threads, of a process, its
 * children and those that it waited for.
 */
export function readCpu(pid: number): number {
  const stats = listStats()
  return sumTreeTicks(pid, stats) * MICROSECONDS_PER_TICK
}

/**
 * Starts to measure the CPU time of one process, in microseconds and with the precision of the
 * scheduler. The returned function returns the time since then. Threads that have ended by then are
 * left out.
 */
export function createCpuReader(pid: number): () => number {
  const read = createThreadCpuReader(pid)
  return () => read().all
}

/** Measures like `createCpuReader`: all threads, and the one that runs the event loop. */
export function createThreadCpuReader(pid: number): () => { all: number; main: number } {
  const before = readThreadCpu(pid)
  return () => {
    const now = readThreadCpu(pid)
    const since = (thread: string) =>
      ((now.get(thread) ?? 0) - (before.get(thread) ?? 0)) / NANOSECONDS_PER_MICROSECOND
    // A process begins with the thread that has its id.
    return { all: sum([...now.keys()].map(since)), main: since(String(pid)) }
  }
}

const NANOSECONDS_PER_MICROSECOND = 1000

const sum = (values: number[]): number => values.reduce((one, other) => one + other, 0)

function readThreadCpu(pid: number): Map<string, number> {
  const threads = listNames(`/proc/${pid}/task`)
  return new Map(
    threads.map(thread => [
      thread,
      Number(readText(`/proc/${pid}/task/${thread}/schedstat`).split(' ')[0]),
    ]),
  )
}

/** Reads the resident memory of one process, in MB. */
export function readResidentMb(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readText(`/proc/${pid}/status`)) ?? []
  return Number(kilobytes ?? 0) / 1024
}

/**
 * Reads the CPU time of the whole machine so far, in microseconds: time used, and time that the
 * host took.
 */
export function readMachineCpu(): { worked: number; stolen: number } {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = readText(
    '/proc/stat',
  )
    .split(/\s+/, 9)
    .slice(1)
    .map(Number)
  return {
    worked: (user + nice + system + irq + softirq) * MICROSECONDS_PER_TICK,
    stolen: steal * MICROSECONDS_PER_TICK,
  }
}

type Stat = { pid: number; parent: number; ticks: number }

function sumTreeTicks(pid: number, stats: Stat[]): number {
  const own = stats.find(stat => stat.pid === pid)?.ticks ?? 0
  return stats
    .filter(stat => stat.parent === pid)
    .reduce((sum, child) => sum + sumTreeTicks(child.pid, stats), own)
}

function listStats(): Stat[] {
  return listNames('/proc').flatMap(name => (/^\d+$/.test(name) ? readStat(Number(name)) : []))
}

function readStat(pid: number): Stat[] {
  const text = readText(`/proc/${pid}/stat`)
  // The name is in brackets and may contain spaces, so the fields are counted from behind it.
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15)
  return text
    ? [{ pid, parent: fields[1] ?? 0, ticks: user + system + childUser + childSystem }]
    : []
}

// Other systems than Linux have no /proc, and a process may end.
function listNames(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // a process may end while the list is being read
  }
}

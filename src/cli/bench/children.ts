import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Connection } from './connection.ts'

/** A running program that listens. `stop` ends it and waits until it is gone. */
export type Child = {
  pid: number
  url: string
  stop: (signal?: 'SIGTERM' | 'SIGKILL') => Promise<void>
}

/** A program to start. One that does not say where it listens has a `url`. */
interface Start {
  name: string
  command: string[]
  core: number
  home: string
  env?: Record<string, string>
  url?: string
}

const PATIENCE_MS = 15_000

/**
 * Starts a program on one core and waits until it listens: for its `{"event":"listening","url":…}`
 * line, or for its `url`. Throws with its output if it does not. It inherits no variable of the
 * gateway.
 */
export async function startChild(start: Start): Promise<Child> {
  const { name, command, core, home, env = {} } = start
  mkdirSync(home, { recursive: true })
  // Output goes to files: the process that creates the load would have to empty a pipe.
  const [stdout, stderr] = [join(home, `${name}.out`), join(home, `${name}.err`)]
  // Emptied first: a restarted program must not be found by its old line.
  for (const file of [stdout, stderr]) writeFileSync(file, '')
  const child = Bun.spawn([...listLeashArguments(), ...listPinArguments(core), ...command], {
    // Parts of the benchmark end when this process does, and so their input does.
    stdin: 'pipe',
    stdout: Bun.file(stdout),
    stderr: Bun.file(stderr),
    cwd: home,
    env: { ...createCleanEnvironment(), ...env },
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    await stopChild(child, signal)
    process.off('exit', kill)
  }
  const url = await waitForUrl(child, stdout, start.url)
  if (url) return { pid: child.pid, url, stop }
  await stop('SIGKILL')
  throw new Error(`${name} did not listen: ${readTail(stdout)} ${readTail(stderr)}`)
}

/**
 * Moves this process, with all its threads, to one core. Does nothing without `taskset` or with
 * only one core.
 */
export function pinSelf(core: number): void {
  if (canPin) Bun.spawnSync(['taskset', '-a', '-c', '-p', String(core), String(process.pid)])
}

/** Whether each process can be pinned to a core of its own. */
export const canPin = Bun.which('taskset') !== null && navigator.hardwareConcurrency > 1

/** Lists what comes before a command to run it on one core. */
export function listPinArguments(core: number): string[] {
  return canPin ? ['taskset', '-c', String(core)] : []
}

// The kernel ends the child when this process dies for any reason.
/** Lists what comes before a command so that it ends with this process. */
export function listLeashArguments(): string[] {
  return Bun.which('setpriv') ? ['setpriv', '--pdeathsig', 'KILL'] : []
}

async function waitForUrl(
  child: Bun.Subprocess,
  stdout: string,
  known: string | undefined,
): Promise<string | undefined> {
  const deadline = performance.now() + PATIENCE_MS
  while (performance.now() < deadline && child.exitCode === null) {
    if (known !== undefined && (await isListening(known))) return known
    const [, url] =
      /^\{.*"event":"listening".*"url":"([^"]+)"/m.exec(readFileSync(stdout, 'utf8')) ?? []
    if (url) return url.replace(/\/$/, '')
    await Bun.sleep(2)
  }
  return undefined
}

/** Returns the environment without what configures a gateway. */
export const createCleanEnvironment = (): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GATEWAY_')))

async function stopChild(child: Bun.Subprocess, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal)
  const impatience = setTimeout(() => child.kill('SIGKILL'), 5_000)
  await child.exited
  clearTimeout(impatience)
}

function readTail(path: string): string {
  return readFileSync(path, 'utf8').slice(-1_000)
}

/** Tells whether a program takes connections at an address. */
function isListening(url: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const open = (connection: Connection) => {
    resolve(true)
    connection.leave()
  }
  new Connection(url, { open, data: () => undefined, close: () => resolve(false) })
  return promise
}

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A running program that listens. `stop` ends it and waits until it is gone. */
export type Child = {
  pid: number
  url: string
  stop: (signal?: 'SIGTERM' | 'SIGKILL') => Promise<void>
}

type Start = {
  name: string
  command: string[]
  core: number
  home: string
  env?: Record<string, string>
}

const PATIENCE_MS = 15_000

/**
 * Starts a program on one core and waits for its `{"event":"listening","url":…}` line. Throws with
 * its output if none comes.
 */
export async function startChild({ name, command, core, home, env = {} }: Start): Promise<Child> {
  mkdirSync(home, { recursive: true })
  // Output goes to files: the process that creates the load would have to empty a pipe.
  const [stdout, stderr] = [join(home, `${name}.out`), join(home, `${name}.err`)]
  // Emptied first: a restarted program must not be found by its old line.
  for (const file of [stdout, stderr]) writeFileSync(file, '')
  const child = Bun.spawn([...listLeashArguments(), ...listPinArguments(core), ...command], {
    stdin: 'ignore',
    stdout: Bun.file(stdout),
    stderr: Bun.file(stderr),
    env: { ...process.env, ...env },
  })
  process.once('exit', () => child.kill('SIGKILL'))
  const stop = (signal: NodeJS.Signals = 'SIGTERM') => stopChild(child, signal)
  const url = await waitForUrl(child, stdout)
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

function listPinArguments(core: number): string[] {
  return canPin ? ['taskset', '-c', String(core)] : []
}

// The kernel ends the child when this process dies for any reason.
function listLeashArguments(): string[] {
  return Bun.which('setpriv') ? ['setpriv', '--pdeathsig', 'KILL'] : []
}

async function waitForUrl(child: Bun.Subprocess, stdout: string): Promise<string | undefined> {
  const deadline = performance.now() + PATIENCE_MS
  while (performance.now() < deadline && child.exitCode === null) {
    const [, url] =
      /^\{.*"event":"listening".*"url":"([^"]+)"/m.exec(readFileSync(stdout, 'utf8')) ?? []
    if (url) return url.replace(/\/$/, '')
    await Bun.sleep(20)
  }
  return undefined
}

async function stopChild(child: Bun.Subprocess, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal)
  const impatience = setTimeout(() => child.kill('SIGKILL'), 5_000)
  await child.exited
  clearTimeout(impatience)
}

function readTail(path: string): string {
  return readFileSync(path, 'utf8').slice(-1_000)
}

import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { SandboxLimits } from '../sandbox.ts'

/** What the kernel may bound for a whole container (its `Documentation/admin-guide/cgroup-v2.rst`). */
export const CONTROLLERS = ['memory', 'pids', 'cpu'] as const
type Controller = (typeof CONTROLLERS)[number]

/** The group of the gateway itself: one that has groups below it has no processes of its own. */
const OWN = 'gateway'
const PREFIX = 'container-'
/** The processes of a container that no command has started: its holder, and what starts a command. */
const OWN_PROCESSES = 12
/** In microseconds: the time of which a container gets a part. */
const PERIOD = 100_000

/** The groups that this process can make. */
export interface ControlGroups {
  /** The directory of the group that was given to the gateway. */
  directory: string
  controllers: Controller[]
}

/** Where the kernel says what it has. */
interface ControlGroupPlaces {
  mounts: string
  self: string
  pid: number
}

const KERNEL: ControlGroupPlaces = {
  mounts: '/proc/self/mountinfo',
  self: '/proc/self/cgroup',
  pid: process.pid,
}

/**
 * Finds the control group that was given to this process, and makes it one that has groups below it:
 * the process itself moves into one of them. Returns why there is none.
 */
export function openControlGroups(places: ControlGroupPlaces = KERNEL): ControlGroups | string {
  const group = findOwnGroup(places)
  if (group === null) return 'the host has no control groups v2'
  try {
    const isMoved = group.endsWith(`/${OWN}`)
    const directory = isMoved ? dirname(group) : group
    const offered = readWords(join(directory, 'cgroup.controllers'))
    const controllers = CONTROLLERS.filter(name => offered.includes(name))
    if (controllers.length === 0) return 'this control group has neither memory, pids nor cpu'
    accessSync(directory, constants.W_OK)
    accessSync(join(directory, 'cgroup.subtree_control'), constants.W_OK)
    if (!isMoved && !moveBelow(directory, places.pid)) return SHARED
    enable(directory, controllers)
    removeLeft(directory)
    return { directory, controllers }
  } catch (thrown) {
    return `this control group is not the gateway’s: ${describe(thrown)}`
  }
}

const SHARED = 'this control group has other processes than the gateway'

const describe = (thrown: unknown): string =>
  thrown instanceof Error && 'code' in thrown ? String(thrown.code) : 'unknown'

/** Returns the directory of this process’s group; null without control groups v2. */
function findOwnGroup({ mounts, self }: ControlGroupPlaces): string | null {
  const path = /^0::(\/.*)$/m.exec(readText(self))?.[1]
  const mounted = readText(mounts)
    .split('\n')
    .map(line => line.split(' '))
    .find(fields => fields[fields.indexOf('-') + 1] === 'cgroup2')
  const [root, at] = [mounted?.[3], mounted?.[4]]
  if (path === undefined || root === undefined || at === undefined) return null
  // A mount may show a part of the tree only.
  if (root !== '/' && path !== root && !path.startsWith(`${root}/`)) return null
  return join(at, root === '/' ? path : path.slice(root.length)).replace(/(.)\/$/, '$1')
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

const readWords = (path: string): string[] => readFileSync(path, 'utf8').split(/\s+/)

/** Moves this process into a group below its own. Returns whether it was alone there. */
function moveBelow(directory: string, pid: number): boolean {
  const isAlone = readWords(join(directory, 'cgroup.procs')).every(
    one => one === '' || one === String(pid),
  )
  if (!isAlone) return false
  mkdirSync(join(directory, OWN), { recursive: true })
  writeFileSync(join(directory, OWN, 'cgroup.procs'), String(pid))
  return true
}

function enable(directory: string, controllers: Controller[]): void {
  const at = join(directory, 'cgroup.subtree_control')
  const enabled = readWords(at)
  const missing = controllers.filter(name => !enabled.includes(name))
  if (missing.length > 0) writeFileSync(at, missing.map(name => `+${name}`).join(' '))
}

/** Removes the groups of gateways that were killed. The kernel keeps those that have processes. */
function removeLeft(directory: string): void {
  for (const name of readdirSync(directory)) {
    const pid = name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-')[0] : undefined
    if (pid === undefined) continue
    // One that was just made by a gateway that runs has none yet.
    if (pid === String(process.pid) || !existsSync(`/proc/${pid}`))
      tryToRemove(join(directory, name))
  }
}

function tryToRemove(directory: string): boolean {
  try {
    rmdirSync(directory)
    return true
  } catch (thrown) {
    return describe(thrown) === 'ENOENT'
  }
}

let made = 0

/** The control group of one container. */
export class ControlGroup {
  readonly #directory: string

  private constructor(directory: string) {
    this.#directory = directory
  }

  /** Makes a group with the limits of a container. Throws what the kernel refuses. */
  static make({ directory, controllers }: ControlGroups, limits: SandboxLimits): ControlGroup {
    const at = join(directory, `${PREFIX}${process.pid}-${made++}`)
    mkdirSync(at)
    try {
      for (const [file, value] of listBounds(controllers, limits)) writeBound(at, file, value)
      return new ControlGroup(at)
    } catch (thrown) {
      tryToRemove(at)
      throw thrown
    }
  }

  /** Returns a command line that enters the group, as the user who owns it, and goes on. */
  enter = (command: string[]): string[] => [
    ...['sh', '-c', 'echo 0 > "$0" && exec "$@"', join(this.#directory, 'cgroup.procs')],
    ...command,
  ]

  /** Kills everything in it and removes it, once the kernel has let go of it. */
  async end(): Promise<void> {
    tryToKillAll(this.#directory)
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (tryToRemove(this.#directory)) return
      await Bun.sleep(1)
    }
  }
}

/** In milliseconds: how long a group is waited for. The next gateway removes what is left. */
const ATTEMPTS = 2_000

// Kernels before 5.14 do not have it: what a container holds is killed one by one, too.
function tryToKillAll(directory: string): void {
  try {
    writeFileSync(join(directory, 'cgroup.kill'), '1', { flag: 'r+' })
  } catch {}
}

/** Lists the files of a group that bound it, and what they say. */
function listBounds(
  controllers: Controller[],
  { memoryBytes, homeBytes, processes, cpus }: SandboxLimits,
): [file: string, value: string][] {
  const bounds: Record<Controller, [string, string][]> = {
    // The home is memory, too, and nothing of it goes to a disk.
    memory: [
      ['memory.max', String(memoryBytes + homeBytes)],
      ['memory.swap.max', '0'],
    ],
    pids: [['pids.max', String(processes + OWN_PROCESSES)]],
    cpu: [['cpu.max', `${Math.max(1_000, Math.round(cpus * PERIOD))} ${PERIOD}`]],
  }
  return controllers.flatMap(name => bounds[name])
}

function writeBound(directory: string, file: string, value: string): void {
  try {
    writeFileSync(join(directory, file), value, { flag: 'r+' })
  } catch (thrown) {
    // A kernel without swap has no such file.
    if (file !== 'memory.swap.max' || describe(thrown) !== 'ENOENT') throw thrown
  }
}

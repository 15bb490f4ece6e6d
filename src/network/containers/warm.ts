import type { Cancellation } from '../../base/cancellation.ts'
import { conflict, GatewayError, unavailable } from '../../base/errors.ts'
import { findSandbox, getSandboxLimits, SandboxPool } from '../sandboxes/pool.ts'
import type { Sandbox, SandboxBox, WrittenFile } from '../sandboxes/sandbox.ts'
import { type RunningHome, readHomeFile } from './home.ts'
import { isSuccessor } from './names.ts'
import type { AllowedHosts, ContainerDoor } from './network.ts'
import type { Container, ContainerFile } from './store.ts'
import type { ContainerWorld } from './world.ts'

/** What containers that run need from the gateway. */
export interface WarmWorld extends ContainerWorld {
  /** The containers that run in this process. */
  warm: WarmContainers
}

/** A container that runs, or is about to. */
interface WarmContainer {
  container: Container
  /** The hosts that its commands may ask, as long as it runs. */
  hosts: AllowedHosts
  home: RunningHome | null
  /** The files of the workspace that were copied in. */
  copied: Set<string>
  /** Ends with its last use. */
  queue: Promise<unknown>
  users: number
  /** Orders containers by their last use. */
  lastUse: number
  idle: Timer | undefined
  /** The key whose place it takes while it is used. */
  holder: string
}

/** Where containers are borrowed from: another server of the data directory, or of the same store. */
interface Lender {
  /** Whether what nothing uses stays here, until it is wanted elsewhere. */
  isPatient?: boolean
  /**
   * Resolves when the container may be used here, and tells whether none may have used it elsewhere
   * since it was. Throws where it may not.
   */
  borrow(id: string): Promise<boolean>
  giveBack(id: string): void
}

/** Who has the homes of containers, where several servers share a store: one process has each. */
export interface HomeOwners {
  /**
   * Takes a home for this process: `kept` where it had it before. Otherwise the name of the server
   * that has it, which is told that it is wanted.
   */
  take(id: string): Promise<'kept' | 'new' | { owner: string }>
  /** Lets another one take it. */
  giveBack(id: string): Promise<void>
  /** Lists the homes of this process that another one wants. */
  listWanted(): Promise<string[]>
}

/** What a use of a container needs to begin. */
interface ContainerUse {
  container: Container
  hosts: AllowedHosts
  cancellation: Cancellation
  /** The key that uses it: keys share the places. */
  holder: string
}

/** How much of what is left a key may hold: so there is always a place for the next one. */
const GREED = 9

/**
 * The containers that run in this process. Each does one thing after the other, and ends after a
 * while without any; its files stay on record.
 */
export class WarmContainers {
  readonly #warm = new Map<string, WarmContainer>()
  /** Sandboxes that were started before a container needs them. */
  readonly pool = new SandboxPool()
  /** Copies into the workspace’s files that are being made, by blob. */
  readonly promotions = new Map<string, Promise<unknown>>()
  /** The ends of the loans of containers that another server uses. */
  readonly #lent = new Map<string, Promise<void>>()
  /** The containers that were borrowed. */
  readonly #borrowed = new Map<string, Promise<boolean>>()
  /** Those of them that another server of the store waits for. */
  readonly #wanted = new Set<string>()
  /** Called when a place may be free, in the order in which they wait. */
  readonly #waiting = new Set<() => void>()
  /** In milliseconds: how long a use waits for a place. */
  longestWait = 10_000
  #lender: Lender | null = null
  #uses = 0
  #isClosed = false

  get size(): number {
    return this.#warm.size
  }

  /**
   * Throws 409 where the container of a name runs with other hosts. One that does not run yet may
   * do so before it is used.
   */
  requireHosts(workspace_id: string, name: string, hosts: AllowedHosts): void {
    const running = [...this.#warm.values()].filter(
      ({ container }) => container.workspace_id === workspace_id,
    )
    const found =
      running.find(({ container }) => container.name === name) ??
      running.find(({ container }) => isSuccessor(container.name, name))
    if (found && !Bun.deepEquals(found.hosts, hosts)) throw conflict(OTHER_NETWORK)
  }

  /** Lists the ids of the containers that run. */
  listIds(): string[] {
    return [...this.#warm.keys()]
  }

  /**
   * Does something in a container, once everything before it is done. Opens its sandbox if it does
   * not run, once no other server uses it, and once there is a place for it. Throws 409 where it
   * runs with other hosts, 503 where there is none for ten seconds, and the reason of the
   * cancellation.
   */
  async use<Result>(
    world: WarmWorld,
    use: ContainerUse,
    work: (home: RunningHome, copied: Set<string>) => Promise<Result>,
  ): Promise<Result> {
    const { container, hosts, cancellation } = use
    const until = performance.now() + this.longestWait
    while (!this.#warm.has(container.id) && !this.#hasPlace(world, use.holder))
      await this.#waitForPlace(world, cancellation, until)
    if (this.#isClosed) throw unavailable('The gateway is shutting down')
    // Nothing waits between these lines, so that no other container takes its place.
    const warm = this.#warm.get(container.id) ?? this.#add(world, use)
    if (!Bun.deepEquals(warm.hosts, hosts)) throw conflict(OTHER_NETWORK)
    clearTimeout(warm.idle)
    warm.users += 1
    const before = Promise.all([
      warm.queue,
      this.#lent.get(container.id),
      this.#borrow(container.id),
    ])
    const turn = Promise.withResolvers<void>()
    warm.queue = turn.promise
    try {
      const [, , isKept = true] = await awaitTurn(before, cancellation)
      if (!isKept) await closeHome(warm)
      warm.home ??= await openHome(world, container, hosts)
      if (this.#isClosed) throw unavailable('The gateway is shutting down')
      return await work(warm.home, warm.copied)
    } finally {
      // A use that left the queue early must not let others in before their turn.
      const pass = () => turn.resolve()
      void before.then(pass, pass)
      await this.#release(world, warm)
    }
  }

  /**
   * Has every container borrowed from now on. Ends those that nothing uses, and returns the ids of
   * the others, which count as borrowed.
   */
  leave(lender: Lender): string[] {
    this.#lender = lender
    const used: string[] = []
    for (const [id, { users }] of this.#warm)
      if (users === 0) void this.end(id)
      else {
        used.push(id)
        this.#borrowed.set(id, Promise.resolve(true))
      }
    return used
  }

  /** Has each container run at one server of a store: where it runs elsewhere it is ended there. */
  shareWith(owners: HomeOwners): void {
    this.#lender = {
      isPatient: true,
      borrow: id => takeHome(owners, id, this.longestWait),
      giveBack: id => void owners.giveBack(id).catch(() => undefined),
    }
  }

  /** Gives away the containers that other servers want, each when nothing uses it here. */
  async giveWanted(owners: HomeOwners): Promise<void> {
    if (this.#borrowed.size === 0) return
    for (const id of await owners.listWanted()) {
      this.#wanted.add(id)
      if ((this.#warm.get(id)?.users ?? 0) === 0) await this.end(id)
    }
  }

  /**
   * Lends a container once the uses before are done, and ends it here: its files are on record.
   * Later uses wait for the end of the loan.
   */
  async lend(id: string, returned: Promise<void>): Promise<void> {
    const loan = returned.then(() => {
      if (this.#lent.get(id) === loan) this.#lent.delete(id)
    })
    this.#lent.set(id, loan)
    const warm = this.#warm.get(id)
    if (!warm) return
    await warm.queue
    const closing = closeHome(warm)
    if (warm.users === 0) await this.end(id)
    await closing
  }

  /** Ends a container that runs, at once. What is not on record is lost. */
  async end(id: string): Promise<void> {
    const warm = this.#warm.get(id)
    if (!warm) return
    this.#warm.delete(id)
    clearTimeout(warm.idle)
    this.#wake()
    await warm.home?.box.close()
    this.#giveBack(id)
  }

  /** Ends those that another process has ended. */
  async endGone({ store }: WarmWorld): Promise<void> {
    for (const { container } of [...this.#warm.values()]) {
      const found = await store.containers.find(container.workspace_id, container.name)
      if (found?.id !== container.id || found.ended_at !== null) await this.end(container.id)
    }
  }

  /** Ends all of them, for good. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#wake()
    await Promise.all([...this.listIds().map(id => this.end(id)), this.pool.close()])
  }

  #borrow(id: string): Promise<boolean> | undefined {
    if (!this.#lender) return undefined
    const known = this.#borrowed.get(id)
    // One that was cut off from the store for long has lost it perhaps.
    if (known && !this.#lender.isPatient) return known
    const borrowed = this.#lender.borrow(id)
    if (known) return borrowed
    this.#borrowed.set(id, borrowed)
    borrowed.catch(() => this.#borrowed.delete(id))
    return borrowed
  }

  #giveBack(id: string): void {
    // A use that has begun meanwhile gives it back at its end.
    if (this.#warm.has(id)) return
    this.#wanted.delete(id)
    if (this.#borrowed.delete(id)) this.#lender?.giveBack(id)
  }

  /**
   * Whether a key may have another container run: those that nothing uses make place. A key alone
   * may hold nine tenths of the places, two not quite half of them each, and so on.
   */
  #hasPlace({ config }: WarmWorld, holder: string): boolean {
    if (this.#isClosed) return true
    const used = [...this.#warm.values()].filter(({ users }) => users > 0)
    const own = used.filter(warm => warm.holder === holder).length
    const left = config.sandbox.running - used.length - 1
    return left >= 0 && own + 1 <= Math.max(GREED * left, 1)
  }

  /** Resolves when there may be a place. Throws 503 where none becomes free. */
  async #waitForPlace(
    { config }: WarmWorld,
    cancellation: Cancellation,
    until: number,
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const { running } = config.sandbox
    const refuse = () =>
      reject(unavailable(`${running} containers run already: sandbox.running allows no more`, 10))
    const timer = setTimeout(refuse, Math.max(0, until - performance.now()))
    this.#waiting.add(resolve)
    try {
      await awaitTurn(promise, cancellation)
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(resolve)
    }
  }

  // Each looks for itself, in the order in which they came: one whose share is full waits on.
  #wake(): void {
    for (const resolve of this.#waiting) resolve()
  }

  #add({ config }: WarmWorld, { container, hosts, holder }: ContainerUse): WarmContainer {
    const warm: WarmContainer = {
      ...{ container, hosts, holder, home: null, copied: new Set<string>(), idle: undefined },
      ...{ queue: Promise.resolve(), users: 0, lastUse: 0 },
    }
    const idle = this.#warm.size < config.sandbox.running ? undefined : this.#findLongestIdle()
    this.#warm.set(container.id, warm)
    if (idle) void this.end(idle.container.id)
    return warm
  }

  #findLongestIdle(): WarmContainer | undefined {
    return [...this.#warm.values()]
      .filter(({ users }) => users === 0)
      .sort((a, b) => a.lastUse - b.lastUse)[0]
  }

  async #release({ config }: WarmWorld, warm: WarmContainer): Promise<void> {
    warm.users -= 1
    if (warm.users === 0) this.#wake()
    warm.lastUse = this.#uses++
    const { id } = warm.container
    // It was ended while it was opened.
    if (this.#warm.get(id) !== warm) await warm.home?.box.close()
    if (warm.home?.box.isGone) {
      warm.home = null
      warm.copied.clear()
    }
    if (warm.users > 0) return
    const isKept = this.#lender === null || (this.#lender.isPatient && !this.#wanted.has(id))
    if (!warm.home || !isKept) {
      if (this.#warm.get(id) === warm) await this.end(id)
      return
    }
    warm.idle = setTimeout(() => void this.end(id), config.sandbox.idle_seconds * 1000)
    warm.idle.unref()
  }
}

async function awaitTurn<Turn>(before: Promise<Turn>, cancellation: Cancellation): Promise<Turn> {
  if (cancellation.reason) throw cancellation.reason
  return cancellation.awaitUnlessCancelled(before)
}

/** Ends what runs of a container, of which it goes on with the files that are on record. */
async function closeHome(warm: WarmContainer): Promise<void> {
  const box = warm.home?.box
  warm.home = null
  warm.copied.clear()
  await box?.close()
}

/** In milliseconds, between two looks whether another server has ended a container. */
const PAUSE = 100

/** Takes a home from the server that has it. Throws 503, naming that, where it goes on using it. */
async function takeHome(owners: HomeOwners, id: string, longestWait: number): Promise<boolean> {
  for (const until = performance.now() + longestWait; ; await Bun.sleep(PAUSE)) {
    const taken = await owners.take(id)
    if (typeof taken === 'string') return taken === 'kept'
    if (performance.now() >= until)
      throw unavailable(`The container runs at another server (${taken.owner}): try again`, 10)
  }
}

const OTHER_NETWORK =
  'The container runs with another network_policy, which stays until sandbox.idle_seconds after its ' +
  'last command'

async function openHome(
  world: WarmWorld,
  container: Container,
  hosts: AllowedHosts,
): Promise<RunningHome> {
  const sandbox = requireSandbox(world)
  // One with a way out is made for its hosts.
  const ready = hosts.length === 0 ? world.warm.pool.take(world) : undefined
  const box = ready ?? (await startBox(world, sandbox, hosts))
  try {
    return await fillHome(world, container, box)
  } catch (thrown) {
    await box.close()
    throw thrown
  }
}

async function startBox(
  world: WarmWorld,
  sandbox: Sandbox,
  hosts: AllowedHosts,
): Promise<SandboxBox> {
  const door = hosts.length > 0 ? await openDoor(world, sandbox, hosts) : undefined
  return openBox(world, sandbox, door).catch(thrown => {
    throw new GatewayError('unavailable', 'The sandbox could not be started', { cause: thrown })
  })
}

async function openDoor(world: WarmWorld, sandbox: Sandbox, hosts: AllowedHosts) {
  const obstacle = sandbox.findNetworkObstacle()
  if (obstacle !== null) throw conflict(`network_policy: expected disabled: ${obstacle}`)
  return world.network.open(hosts)
}

/** Opens a sandbox, whose way out is closed when it ends. */
async function openBox(
  { config }: WarmWorld,
  sandbox: Sandbox,
  door: ContainerDoor | undefined,
): Promise<SandboxBox> {
  const limits = getSandboxLimits(config)
  if (!door) return sandbox.open(limits)
  const box = await sandbox.open(limits, door).catch(async thrown => {
    await door.close()
    throw thrown
  })
  void box.ended.then(() => door.close())
  return box
}

/** Returns the sandbox that the config names. Throws 409 where there is none. */
export function requireSandbox(world: WarmWorld): Sandbox {
  const found = findSandbox(world)
  if (!found) throw conflict('sandbox.kind: no sandbox is enabled')
  return found
}

/** Puts the files on record into the empty home of a sandbox that was just opened. */
async function fillHome(
  world: ContainerWorld,
  container: Container,
  box: SandboxBox,
): Promise<RunningHome> {
  const home: RunningHome = { container, box, kept: new Map() }
  const files = await Array.fromAsync(listAll(world, container))
  if (files.length === 0) return home
  await box.write(readAll(world, container, files))
  const listed = new Map((await box.list()).files.map(file => [file.path, file.version]))
  // One whose bytes are missing is not in the home, and forgotten with the next command.
  for (const file of files)
    home.kept.set(file.path, { file, version: listed.get(file.path) ?? 'missing' })
  return home
}

async function* listAll(world: ContainerWorld, { id }: Container): AsyncIterable<ContainerFile> {
  for (let after: string | undefined; ; ) {
    const limit = 1_000
    const page = await world.store.containers.listFiles({ container_id: id, after, limit })
    yield* page
    if (page.length < limit) return
    after = page.at(-1)?.path
  }
}

async function* readAll(
  world: ContainerWorld,
  container: Container,
  files: ContainerFile[],
): AsyncIterable<WrittenFile> {
  for (const file of files) {
    const pieces = await readHomeFile(world, container, file).catch(thrown => {
      if (thrown instanceof GatewayError && thrown.type === 'not_found') return null
      throw thrown
    })
    const { path, mode, size_bytes: size } = file
    if (pieces) yield { path, mode, size, pieces }
  }
}

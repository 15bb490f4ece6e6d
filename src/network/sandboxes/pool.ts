import type { Config } from '../../config.ts'
import type { Sandbox, SandboxBox, SandboxLimits } from './sandbox.ts'

/** What a pool reads: it may have changed each time. */
interface PoolWorld {
  config: Pick<Config, 'sandbox'>
  sandboxes: Sandbox[]
}

/** A sandbox that is ready, or about to be. */
interface Entry {
  sandbox: Sandbox
  limits: SandboxLimits
  /** Undefined until it is ready. */
  box?: SandboxBox
}

const MIB = 1024 * 1024

/** Returns the limits of everything that runs in one container, by the config. */
export const getSandboxLimits = ({ sandbox }: Pick<Config, 'sandbox'>): SandboxLimits => ({
  homeBytes: sandbox.home_mib * MIB,
  memoryBytes: sandbox.memory_mib * MIB,
  processes: sandbox.processes,
  cpus: sandbox.cpus,
})

/** Returns the sandbox that the config names; undefined for none. */
export const findSandbox = ({ config, sandboxes }: PoolWorld): Sandbox | undefined =>
  sandboxes.find(({ name }) => name === config.sandbox.kind)

/**
 * Sandboxes that run before one is needed, so that no call waits for their start: as many as
 * `sandbox.ready` says, with empty homes and no network. Empty until it is filled for the first
 * time.
 */
export class SandboxPool {
  readonly #entries = new Set<Entry>()
  readonly #starting = new Set<Promise<void>>()
  #isFilled = false
  #isClosed = false

  /** How many are ready. */
  get size(): number {
    return [...this.#entries].filter(({ box }) => box).length
  }

  /**
   * Starts what is missing, and ends what the config does not want any more. One that does not start
   * is tried again when the next is taken.
   */
  fill(world: PoolWorld): void {
    if (this.#isClosed) return
    this.#isFilled = true
    const sandbox = findSandbox(world)
    const limits = getSandboxLimits(world.config)
    for (const entry of this.#entries)
      if (entry.sandbox !== sandbox || !Bun.deepEquals(entry.limits, limits)) this.#drop(entry)
    if (!sandbox || sandbox.obstacle !== null) return
    const { ready } = world.config.sandbox
    for (const entry of [...this.#entries].slice(ready)) this.#drop(entry)
    while (this.#entries.size < ready) this.#start({ sandbox, limits })
  }

  /**
   * Takes a sandbox that is ready for this config; undefined if there is none. Another is started in
   * its place, once the event loop is free.
   */
  take(world: PoolWorld): SandboxBox | undefined {
    if (!this.#isFilled) return undefined
    const sandbox = findSandbox(world)
    const limits = getSandboxLimits(world.config)
    const found = [...this.#entries].find(
      entry =>
        entry.box?.isGone === false &&
        entry.sandbox === sandbox &&
        Bun.deepEquals(entry.limits, limits),
    )
    if (found) this.#entries.delete(found)
    setImmediate(() => this.fill(world))
    return found?.box
  }

  /** Fills it by a new config, if it is filled at all. */
  refill(world: PoolWorld): void {
    if (this.#isFilled) this.fill(world)
  }

  /** Resolves once nothing is being started. */
  async settle(): Promise<void> {
    while (this.#starting.size > 0) await Promise.all(this.#starting)
  }

  /** Ends all of them, also those that are being started, for good. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#entries].map(entry => this.#drop(entry)))
    await this.settle()
  }

  #start(entry: Entry): void {
    this.#entries.add(entry)
    const starting = this.#open(entry).finally(() => this.#starting.delete(starting))
    this.#starting.add(starting)
  }

  async #open(entry: Entry): Promise<void> {
    const box = await entry.sandbox.open(entry.limits).catch(() => undefined)
    // One that does not start is forgotten: the next container starts its own, and says why.
    if (!box) return void this.#entries.delete(entry)
    if (!this.#entries.has(entry)) return box.close()
    entry.box = box
    void box.ended.then(() => this.#entries.delete(entry))
  }

  async #drop(entry: Entry): Promise<void> {
    this.#entries.delete(entry)
    await entry.box?.close()
  }
}

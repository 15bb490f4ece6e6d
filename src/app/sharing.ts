import { isObject } from '../base/json.ts'
import type { HomeOwners } from '../network/containers/warm.ts'
import { rememberTogether } from '../resources/idempotency/shared.ts'
import { endCancelled } from '../resources/responses.ts'
import type { News, SharedStore } from '../store/postgres/shared.ts'
import type { Gateway } from './gateway.ts'

/** In milliseconds, between two looks at what others do: also where no news of it comes. */
const LOOK = 1_000

/** In looks, between two removals of what is over. */
const SWEEP = 60

/**
 * Has a server share with the others of its store what would be in its memory alone, and follow what
 * they change. `incarnation` is the name of its process. Returns what ends that.
 */
export async function shareMemory(
  gateway: Gateway,
  shared: SharedStore,
  incarnation: string,
): Promise<() => Promise<void>> {
  const owners = shared.openOwners(incarnation)
  gateway.traffic.keptCalls.shareWith(rememberTogether(gateway, shared.openCalls(incarnation)))
  gateway.traffic.makers = shared.openMakers(incarnation)
  gateway.warm.shareWith(owners)
  const follower = new Follower({ gateway, shared, incarnation, owners })
  await follower.start()
  return () => follower.stop()
}

interface Following {
  gateway: Gateway
  shared: SharedStore
  incarnation: string
  owners: HomeOwners
}

/** Follows what other servers do. What fails is tried again at the next look. */
class Follower {
  readonly #of: Following
  #stopListening: (() => Promise<void>) | null = null
  /** What the others know of this server. */
  #told: Partial<Pick<Gateway, 'config' | 'catalog'> & { draining: boolean }> = {}
  #looks = 0
  #looking: Promise<void> | null = null
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(of: Following) {
    this.#of = of
  }

  async start(): Promise<void> {
    await this.#try(() => this.#listen())
    await this.#try(() => this.#tell())
    this.#timer = setInterval(() => {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = null
      })
    }, LOOK)
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
    await this.#stopListening?.()
  }

  async #look(): Promise<void> {
    const { gateway, shared } = this.#of
    await this.#try(() => gateway.catchUp())
    await this.#try(() => this.#giveWanted())
    await this.#try(() => endCancelled(gateway))
    await this.#try(() => this.#tell())
    await this.#try(() => this.#listen())
    if (++this.#looks % SWEEP === 0) await this.#try(() => shared.sweep())
  }

  async #listen(): Promise<void> {
    this.#stopListening ??= await this.#of.shared.listen(news => void this.#hear(news))
  }

  #hear(news: News): Promise<void> {
    return this.#try(() => (news === 'wanted' ? this.#giveWanted() : this.#of.gateway.catchUp()))
  }

  #giveWanted = (): Promise<void> => this.#of.gateway.warm.giveWanted(this.#of.owners)

  /** Tells the others which config is in effect here, and whether it takes no more calls. */
  async #tell(): Promise<void> {
    const { gateway, incarnation } = this.#of
    const { config, catalog } = gateway
    const { draining } = gateway.traffic.calls
    if (draining && !this.#told.draining) await gateway.store.nodes?.noteDrain(incarnation)
    this.#told.draining = draining
    if (config === this.#told.config && catalog === this.#told.catalog) return
    await gateway.store.nodes?.describe(incarnation, hashConfig(gateway))
    Object.assign(this.#told, { config, catalog })
  }

  async #try(work: () => Promise<unknown>): Promise<void> {
    await work().catch(() => undefined)
  }
}

/** The settings that are each server's own. */
const OWN_SETTINGS = ['host', 'port']

/**
 * Returns what stands for a config and its known models: two that differ in what calls meet have
 * different ones. Nothing of it can be guessed without the secret of the data.
 */
export function hashConfig({
  config,
  catalog,
  secrets,
}: Pick<Gateway, 'config' | 'catalog' | 'secrets'>): string {
  const server = Object.entries(config.server).filter(([name]) => !OWN_SETTINGS.includes(name))
  const text = JSON.stringify({ ...config, server: Object.fromEntries(server) }, sortFields)
  return secrets.mac(`config ${catalog.getBuiltIn().generated} ${text}`).slice(0, 12)
}

const sortFields = (_: string, value: unknown) =>
  isObject(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : typeof value === 'bigint'
      ? String(value)
      : value

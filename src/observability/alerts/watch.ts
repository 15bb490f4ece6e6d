import { shareRuns } from '../../base/share-runs.ts'
import type { Key } from '../../resources/keys/store.ts'
import {
  type Finding,
  findBacklogs,
  findCredits,
  findEmpty,
  findEnding,
  findErrors,
  findLimits,
} from './causes.ts'
import { buildNotice, findReached } from './notice.ts'
import type { AlertCause } from './schema.ts'
import { AlertSender } from './sender.ts'
import type { Alert } from './store.ts'
import type { AlertWorld } from './world.ts'

/** In milliseconds, between two looks at the causes, and at those that hours do not change. */
const TICK = 60_000
const SLOW_TICK = 3_600_000

/** So many keys are remembered as used since the last look. Beyond that all are looked at. */
const MOST_USED = 10_000

/**
 * Watches the causes of alerts, once a minute, and has their receivers told. Nothing is done and
 * nothing is listened to for causes that no alert has. Only the server of a data directory may.
 */
export class AlertWatch {
  readonly #world: AlertWorld
  readonly #sender: AlertSender
  #stops: (() => void)[] = []
  #listeners: (() => void)[] = []
  /** The ids of what is decided, as long as its window may last. Null until they are read. */
  #known: Set<string> | null = null
  /** The keys that calls were made with since the last look; null for all. */
  #used: Set<string> | null = null
  /** The providers that have said since the last look that their account is empty. */
  #empty = new Set<string>()
  #slowAt = Number.NEGATIVE_INFINITY
  /** What alerts there are, to tell a change of them from another one. */
  #edition = ''

  constructor(world: AlertWorld, sender = new AlertSender(world)) {
    this.#world = world
    this.#sender = sender
  }

  /** Begins with what was decided and not told. */
  async start(): Promise<void> {
    const timer = setInterval(() => void this.tick().catch(() => undefined), TICK)
    this.#stops = [
      () => clearInterval(timer),
      this.#world.events.on('alerts.changed', () => this.#listen()),
    ]
    this.#listen()
    await this.#sender.start()
    // What a killed process has found may be lost with it.
    void this.tick().catch(() => undefined)
  }

  /** Ends all requests. What is not told yet is told at the next start. */
  async stop(): Promise<void> {
    for (const stop of [...this.#stops, ...this.#listeners]) stop()
    this.#stops = []
    this.#listeners = []
    this.#edition = ''
    await this.#sender.stop()
  }

  /** Looks at every cause, and decides what is to be told. A timer calls it. */
  tick = shareRuns(async () => {
    try {
      return await this.#look()
    } catch (thrown) {
      // What was found may be lost with it.
      this.#lookAtAll()
      throw thrown
    }
  })

  /** Waits until nothing is sent or written at this moment. */
  rest = (): Promise<void> => this.#sender.rest()

  async #look(): Promise<boolean> {
    if (this.#world.memory.alerts.size === 0) return false
    await this.#forget()
    const found = await this.#findAll()
    const known = this.#known ?? new Set(await this.#world.store.alerts.listNoticeIds())
    this.#known = known
    const notices = found.flatMap(([alert, findings]) =>
      findings.flatMap(finding => {
        const reached = findReached(alert, finding, id => known.has(id))
        return reached ? buildNotice(this.#world, reached) : []
      }),
    )
    if (notices.length === 0) return false
    await this.#world.store.alerts.addNotices(notices)
    for (const { id } of notices) known.add(id)
    this.#sender.add(notices)
    return true
  }

  #lookAtAll(): void {
    this.#used = null
    this.#slowAt = Number.NEGATIVE_INFINITY
  }

  #list(cause: AlertCause): Alert[] {
    return this.#world.memory.alerts.filter(alert => alert.cause === cause && !alert.disabled)
  }

  /** Listens to what the alerts need that there are. A new one is about what was before it, too. */
  #listen(): void {
    const { memory, events } = this.#world
    const edition = JSON.stringify(
      Array.from(memory.alerts.values(), one => [one.id, one.updated_at]),
    )
    if (edition === this.#edition) return
    this.#edition = edition
    this.#lookAtAll()
    for (const stop of this.#listeners) stop()
    this.#listeners = []
    if (this.#list('limit_near').length > 0)
      this.#listeners.push(
        events.on('generation.finished', ({ key_hash }) => this.#noteUse(key_hash)),
      )
    if (this.#list('provider_empty').length > 0)
      this.#listeners.push(
        events.on('operator.needed', ({ endpoint, trouble }) => {
          if (trouble === 'balance') this.#empty.add(endpoint.provider.slug)
        }),
      )
  }

  #noteUse(key_hash: string | null): void {
    if (this.#used === null || key_hash === null) return
    if (this.#used.size < MOST_USED) this.#used.add(key_hash)
    else this.#used = null
  }

  /** Once an hour what windows that are over have left is forgotten. */
  async #forget(): Promise<void> {
    if (!this.#isSlowTick()) return
    await this.#world.store.alerts.removeNotices(this.#world.clock.now().toISOString())
    this.#known = null
  }

  #isSlowTick = (): boolean => this.#world.clock.ticks() - this.#slowAt >= SLOW_TICK

  async #findAll(): Promise<[Alert, Finding[]][]> {
    const isSlow = this.#isSlowTick()
    if (isSlow) this.#slowAt = this.#world.clock.ticks()
    const empty = this.#empty
    this.#empty = new Set()
    const errors = this.#list('error_rate').map(
      async (alert): Promise<[Alert, Finding[]]> => [alert, await findErrors(this.#world, alert)],
    )
    return [
      ...(await this.#findLimits()),
      ...(await Promise.all(errors)),
      ...this.#find('provider_empty', alert => findEmpty(this.#world, alert, empty)),
      ...this.#find('destination_backlog', alert => findBacklogs(this.#world, alert)),
      ...(isSlow ? await this.#findEnding() : []),
      ...this.#find('credits_low', alert => findCredits(this.#world, alert)),
    ]
  }

  #find(cause: AlertCause, find: (alert: Alert) => Finding[]): [Alert, Finding[]][] {
    return this.#list(cause).map(alert => [alert, find(alert)])
  }

  async #findLimits(): Promise<[Alert, Finding[]][]> {
    if (this.#list('limit_near').length === 0) return []
    const used = this.#used
    this.#used = new Set()
    const found = await findLimits(this.#world, this.#listKeys(used))
    return this.#find('limit_near', alert => pickOfKey(alert, found))
  }

  #listKeys(used: Set<string> | null): Iterable<Key> {
    const { keys } = this.#world.memory
    return used === null ? keys.values() : [...used].flatMap(hash => keys.get(hash) ?? [])
  }

  async #findEnding(): Promise<[Alert, Finding[]][]> {
    if (this.#list('credential_ending').length === 0) return []
    const found = await findEnding(this.#world)
    return this.#find('credential_ending', alert => pickOfKey(alert, found))
  }
}

/** Picks the findings of an alert's workspace, and of its key where it is about one alone. */
const pickOfKey = ({ workspace_id, key_hash }: Alert, found: Map<string, Finding[]>): Finding[] =>
  (found.get(workspace_id) ?? []).filter(
    ({ data }) => key_hash === null || data.key_hash === key_hash,
  )

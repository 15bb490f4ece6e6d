import { shareRuns } from '../../base/share-runs.ts'
import type { Key } from '../../resources/keys/store.ts'
import type { BackgroundTurn } from '../destinations/world.ts'
import {
  type Accounts,
  type Finding,
  findBacklogs,
  findCredits,
  findEmpty,
  findEnding,
  findErrors,
  findLimits,
} from './causes.ts'
import type { NoticeContent } from './notice.ts'
import {
  buildEnd,
  buildNotice,
  endLasting,
  findReached,
  isWell,
  type Lasting,
  nameLasting,
} from './notice.ts'
import { parseSighting, watchProviders } from './providers.ts'
import type { AlertCause } from './schema.ts'
import { ALERT_CAUSES, describeCause } from './schema.ts'
import { AlertSender } from './sender.ts'
import type { Alert, Notice } from './store.ts'
import type { AlertWorld } from './world.ts'

/** In milliseconds, between two looks at the causes, and at those that hours do not change. */
const TICK = 60_000
const SLOW_TICK = 3_600_000

/** So many keys are remembered as used since the last look. Beyond that all are looked at. */
const MOST_USED = 10_000

/** A notice, the name of what it is about, and the notice that it ends. */
interface Decision {
  notice: Notice
  name: string
  ends: Lasting | undefined
}

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
  /** What was told and has not ended, by its name. */
  #lasting = new Map<string, Lasting>()
  /** The keys that calls were made with since the last look; null for all. */
  #used: Set<string> | null = null
  /** Whether calls have ended since the last look. */
  #hasCalls = true
  /** The slugs of providers that have said since the last look that their account is empty. */
  #empty = new Set<string>()
  /** Those that had said so before, and the names of those that have answered since the last look. */
  #emptyBefore = new Set<string>()
  #answering = new Set<string>()
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
    const { memory, jobs } = this.#world
    if (memory.alerts.size === 0 || jobs?.isHeld === false) return false
    if (jobs) await this.#noteOthers(jobs)
    await this.#forget()
    const found = await this.#findAll()
    const known = this.#known ?? (await this.#remember())
    const decisions = found.flatMap(([alert, findings]) =>
      findings.flatMap(finding => this.#decide(alert, finding, known)),
    )
    if (decisions.length === 0) return false
    const notices = decisions.map(({ notice }) => notice)
    const ended = decisions.flatMap(({ ends }) => (ends ? endLasting(ends) : []))
    await this.#world.store.alerts.addNotices(notices, ended)
    for (const { notice, name } of decisions) this.#note(notice, name, known)
    this.#sender.add(notices)
    return true
  }

  /** Notes what has happened at other servers since the last look. */
  async #noteOthers(jobs: BackgroundTurn): Promise<void> {
    for (const hash of await jobs.listUsedKeys()) this.#noteUse(hash)
    for (const sighting of await jobs.listSightings()) {
      const { slug, name } = parseSighting(sighting)
      if (slug !== undefined) this.#empty.add(slug)
      if (name !== undefined) this.#answering.add(name)
    }
  }

  async #remember(): Promise<Set<string>> {
    const { alerts } = this.#world.store
    this.#lasting = readLasting(await alerts.listLasting())
    this.#known = new Set(await alerts.listNoticeIds())
    return this.#known
  }

  /** Decides whether a finding is told: that a threshold is reached, or the end of what was told. */
  #decide(alert: Alert, finding: Finding, known: Set<string>): Decision[] {
    const name = nameLasting(alert.id, finding.data)
    const ends = this.#lasting.get(name)
    const reached = findReached(alert, finding, id => known.has(id))
    if (reached) return [{ notice: buildNotice(this.#world, reached), name, ends }]
    if (!ends || !isWell(alert, finding)) return []
    return [{ notice: buildEnd(this.#world, { alert, finding, lasting: ends }), name, ends }]
  }

  #note(notice: Notice, name: string, known: Set<string>): void {
    known.add(notice.id)
    const [lasting] = readLasting(notice.ends_at === null ? [notice] : []).values()
    if (lasting) this.#lasting.set(name, lasting)
    else this.#lasting.delete(name)
  }

  #lookAtAll(): void {
    this.#hasCalls = true
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
    if (this.#list('limit_near').length + this.#list('error_rate').length > 0)
      this.#listeners.push(
        events.on('generation.finished', ({ key_hash }) => this.#noteUse(key_hash)),
      )
    if (this.#list('provider_empty').length > 0)
      this.#listeners.push(
        ...watchProviders(events, {
          onEmpty: slug => this.#empty.add(slug),
          onAnswer: name => this.#answering.add(name),
        }),
      )
  }

  /**
   * Takes what providers have said since the last look. One of several credentials may be empty, and
   * rests for a minute while others answer: so that a provider answers counts after two looks.
   */
  #takeAccounts(): Accounts {
    const [empty, emptyBefore, names] = [this.#empty, this.#emptyBefore, this.#answering]
    this.#empty = new Set()
    this.#answering = new Set()
    this.#emptyBefore = empty
    const { providers } = this.#world.catalog
    const answering = new Set(
      Array.from(providers.values(), ({ slug, name }) => (names.has(name) ? slug : '')),
    )
    return { empty, answering: answering.difference(emptyBefore) }
  }

  #noteUse(key_hash: string | null): void {
    this.#hasCalls = true
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
    const accounts = this.#takeAccounts()
    return [
      ...(await this.#findLimits()),
      ...(await this.#findErrors()),
      ...this.#find('provider_empty', alert => findEmpty(this.#world, alert, accounts)),
      ...this.#find('destination_backlog', alert => findBacklogs(this.#world, alert)),
      ...(isSlow ? await this.#findEnding() : []),
      ...this.#find('credits_low', alert => findCredits(this.#world, alert)),
    ]
  }

  /** One after the other: many may be about the same calls, which are summed once. */
  async #findErrors(): Promise<[Alert, Finding[]][]> {
    if (!this.#hasCalls) return []
    this.#hasCalls = false
    const known = new Map<string, Finding[]>()
    const found: [Alert, Finding[]][] = []
    for (const alert of this.#list('error_rate')) {
      const name = `${alert.workspace_id} ${alert.key_hash} ${alert.window}`
      const findings = known.get(name) ?? (await findErrors(this.#world, alert))
      known.set(name, findings)
      found.push([alert, findings])
    }
    return found
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

/** Reads what notices tell that has not ended yet, by its name. */
function readLasting(notices: Notice[]): Map<string, Lasting> {
  const lasting = new Map<string, Lasting>()
  for (const { id, alert_id, content } of notices) {
    const { type, data } = JSON.parse(content) as NoticeContent
    const cause = ALERT_CAUSES.find(one => type === `alert.${one}`)
    if (cause === undefined || !describeCause(cause).tellsEnd) continue
    lasting.set(nameLasting(alert_id, data), { id, window_start: String(data.window_start) })
  }
  return lasting
}

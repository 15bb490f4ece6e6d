import type { EventMap } from '../base/events.ts'
import { toUsd } from '../base/money.ts'
import { VERSION } from '../base/version.ts'
import { Run } from '../engine/run.ts'
import { getWholeAccount } from '../limits/call-budgets.ts'
import { canRead } from '../observability/generations/find.ts'
import type { Generation } from '../observability/generations/store.ts'
import { getCallStatus } from '../observability/generations.ts'
import type { Refusal } from '../observability/refusals.ts'
import { type Actor, canManageAll } from '../resources/actor.ts'
import {
  type ActivityEntry,
  buildAttemptFailed,
  buildAttemptStarted,
  buildCallFinished,
  buildCallOpened,
  buildCallPlanned,
  buildCallRefused,
  buildLimitNear,
  hideReason,
  nameEndpoint,
  type Queues,
  type State,
} from './activity/entries.ts'
import { ActivityListener, type Viewer } from './activity/listener.ts'
import type { ExtensionWorld } from './world.ts'

/** In milliseconds, between two entries about the state of the server. */
const TICK = 1_000

/** How many running calls tell how far they are, in each turn. */
const MOST_PROGRESS = 500

/** A limit is near when this share of it is spent, in thousandths. */
const LEVELS = [800n, 1000n]

/** How many accounts are remembered as near their limit. */
const MOST_LEVELS = 10_000

/**
 * The feed of what happens: calls as they start, are tried, fall back, answer and finish, with
 * circuits, limits, changes of the config and alarms. Without a listener nothing is done: no event
 * has a subscriber. A listener that does not read loses entries and is told how many.
 */
export class Activity {
  readonly #world: ExtensionWorld
  readonly #listeners = new Set<ActivityListener>()
  #stops: (() => void)[] = []
  readonly #repeat: Repeat
  /** The endpoints in a cooldown that listeners know of. */
  #cooling = new Set<string>()
  #levels = new Map<string, number>()
  #progress = new Map<string, number>()
  #totals: Totals
  #tickedAt = 0

  /** Takes what repeats its work once a second; a timer by default. */
  constructor(world: ExtensionWorld, repeat: Repeat = startTimer) {
    this.#world = world
    this.#repeat = repeat
    this.#totals = new Totals(0)
  }

  /** How many listen at this moment. */
  get size(): number {
    return this.#listeners.size
  }

  /**
   * Begins to listen as this actor, who sees the calls of the workspaces that they manage, or their
   * own, and the state of the server if they manage all. The first entries tell what is there
   * already, and then so many past calls. One that finishes meanwhile may be told twice.
   */
  listen(actor: Actor, past = 0): ActivityListener {
    const listener = new ActivityListener(
      buildViewer(this.#world, actor),
      count => JSON.stringify({ type: 'lost', at: this.#now(), count }),
      ended => this.#remove(ended),
    )
    if (this.#listeners.size === 0) this.#start()
    this.#tellPresent(listener)
    this.#listeners.add(listener)
    if (past > 0) void this.#tellPast(listener, actor, past)
    return listener
  }

  /** Ends all listeners. */
  close(): void {
    for (const listener of [...this.#listeners]) void listener.return()
  }

  /** Tells the state of the server, and how far its calls are. A timer calls it while some listen. */
  tick(): void {
    this.#compareCooldowns()
    for (const run of this.#listRuns()) this.#tellProgress(run)
    const since = this.#tickedAt
    this.#tickedAt = this.#world.clock.ticks()
    this.#tell(null, () => this.#buildState(since))
  }

  #remove(listener: ActivityListener): void {
    this.#listeners.delete(listener)
    if (this.#listeners.size === 0) this.#stop()
  }

  #start(): void {
    this.#tickedAt = this.#world.clock.ticks()
    this.#totals = new Totals(this.#tickedAt)
    this.#stops = [...this.#subscribe(), this.#repeat(() => this.tick())]
  }

  #stop(): void {
    for (const stop of this.#stops) stop()
    this.#stops = []
    this.#cooling = new Set()
    this.#levels = new Map()
    this.#progress = new Map()
  }

  #now = (): string => this.#world.clock.now().toISOString()

  #subscribe(): (() => void)[] {
    const { events } = this.#world
    const tellAll = (build: () => ActivityEntry) => this.#tell(null, build)
    const alarm = (name: string, message: string) => () =>
      tellAll(() => ({ type: 'alarm', at: this.#now(), name, message }))
    return [
      events.on('call.opened', run =>
        this.#tell(run.actor, () => buildCallOpened(this.#world, this.#now(), run)),
      ),
      events.on('step.planned', step =>
        this.#tell(step.run.actor, () => buildCallPlanned(this.#world, this.#now(), step)),
      ),
      events.on('attempt.started', ({ run, attempt }) =>
        this.#tell(run.actor, () => buildAttemptStarted(this.#now(), run.call.id, attempt)),
      ),
      events.on('attempt.failed', failed => this.#tellFailure(failed)),
      events.on('first.token', run =>
        this.#tell(run.actor, () => ({
          ...{ type: 'call.answering', at: this.#now(), id: run.call.id },
          latency: Math.round((run.firstPartAt ?? run.startedAt) - run.startedAt),
        })),
      ),
      events.on('hedge.started', ({ endpoint }) =>
        tellAll(() => ({ type: 'hedge.started', at: this.#now(), ...nameEndpoint(endpoint) })),
      ),
      events.on('call.closed', run => this.#tellLimits(run)),
      events.on('generation.finished', call => this.#tellFinished(call)),
      events.on('call.refused', refusal => this.#tellRefused(refusal)),
      events.on('refusals.skipped', ({ count }) => this.#totals.countRefusals(count)),
      events.on('config.applied', ({ changed, needsRestart }) =>
        tellAll(() => ({
          ...{ type: 'config.applied', at: this.#now(), changed, needs_restart: needsRestart },
        })),
      ),
      events.on('config.rejected', ({ error }) =>
        tellAll(() => ({ type: 'config.rejected', at: this.#now(), message: error.message })),
      ),
      events.on('store.failing', alarm('store.failing', 'Records cannot be written: calls wait')),
      events.on('store.slow', alarm('store.slow', 'The disk stands still: calls wait')),
      events.on('store.recovered', alarm('store.recovered', 'The disk has caught up')),
      events.on(
        'checkpoint.failing',
        alarm('checkpoint.failing', 'The end of the ledger cannot be written down'),
      ),
      events.on('descriptors.scarce', alarm('descriptors.scarce', 'File descriptors run out')),
      events.on(
        'descriptors.sufficient',
        alarm('descriptors.sufficient', 'There are enough again'),
      ),
      events.on('overload.began', ({ reason }) =>
        alarm('overload.began', `Calls are refused for the sake of those that run: ${reason}`)(),
      ),
      events.on('overload.ended', alarm('overload.ended', 'Every call is admitted again')),
      events.on('byok.unreadable', ({ provider }) =>
        alarm('byok.unreadable', `A key for ${provider} was sealed with another secret`)(),
      ),
      events.on('price.missing', ({ endpoint }) =>
        alarm('price.missing', `${endpoint.id} has no price: its calls are not charged`)(),
      ),
      events.on('usage.implausible', ({ endpoint }) =>
        alarm('usage.implausible', `${endpoint.id} reported counts that a call cannot have`)(),
      ),
      events.on('finish.unknown', ({ endpoint }) =>
        alarm('finish.unknown', `${endpoint.id} ended an answer for a reason that is not known`)(),
      ),
      events.on('operator.needed', ({ endpoint, trouble, credential }) =>
        alarm(
          'operator.needed',
          `${endpoint.id} fails${credential === undefined ? '' : ` with the credential ${credential}`} until you mend the ${trouble} there`,
        )(),
      ),
    ]
  }

  /**
   * Passes an entry to those who may see it. It is built and rendered once, and only if somebody
   * has room for it. `hidden` replaces it for those who are not the operator.
   */
  #tell<Built extends ActivityEntry>(
    owner: Owner | null,
    build: () => Built,
    hide?: (entry: Built) => Built,
  ): void {
    let entry: Built | undefined
    let shown: string | undefined
    let hidden: string | undefined
    for (const listener of this.#listeners) {
      const { viewer } = listener
      if (!maySee(viewer, owner)) continue
      if (!listener.hasRoom) {
        listener.lose()
        continue
      }
      entry ??= build()
      if (hide && !viewer.isOperator) hidden ??= JSON.stringify(hide(entry))
      else shown ??= JSON.stringify(entry)
      listener.add((hide && !viewer.isOperator ? hidden : shown) ?? '')
    }
  }

  #tellFailure(failed: EventMap['attempt.failed']): void {
    const { id, workspace_id, endpoint, error } = failed
    this.#tell(
      { workspace_id, user_id: null },
      () => buildAttemptFailed(this.#now(), id, failed),
      entry => hideReason(entry, error),
    )
    const cooldown = this.#world.traffic.health.findCooldown(endpoint)
    if (cooldown) this.#tellCooldown({ endpoint: endpoint.id, ...cooldown })
  }

  #tellCooldown(cooldown: { endpoint: string; until: number; reason: string }): void {
    const { endpoint, until, reason } = cooldown
    if (this.#cooling.has(endpoint)) return
    this.#cooling.add(endpoint)
    const seconds_left = Math.ceil((until - this.#world.clock.ticks()) / 1000)
    this.#tell(null, () => ({
      ...{ type: 'circuit.opened', at: this.#now(), endpoint, reason, seconds_left },
    }))
  }

  #compareCooldowns(): void {
    const cooldowns = this.#world.traffic.health.listCooldowns()
    const now = new Set(cooldowns.map(({ endpoint }) => endpoint))
    for (const cooldown of cooldowns) this.#tellCooldown(cooldown)
    for (const endpoint of [...this.#cooling].filter(id => !now.has(id))) {
      this.#cooling.delete(endpoint)
      this.#tell(null, () => ({ type: 'circuit.closed', at: this.#now(), endpoint }))
    }
  }

  #tellFinished(call: Generation): void {
    this.#totals.count(call)
    this.#progress.delete(call.id)
    this.#tell(call, () => buildCallFinished(this.#world, this.#now(), call))
  }

  #tellRefused(refusal: Refusal): void {
    this.#totals.countRefusals(1)
    const { workspace_id, key_hash } = refusal
    const user_id = this.#world.memory.keys.get(key_hash ?? '')?.creator_user_id ?? null
    this.#tell({ workspace_id, user_id }, () => buildCallRefused(this.#world, this.#now(), refusal))
  }

  /** Tells once when an account comes near a limit, and once when it has reached it. */
  #tellLimits({ policy, actor }: Run): void {
    for (const bound of policy.bounds) {
      const spent = bound.limit - this.#world.ledger.getRemaining(bound)
      const level = LEVELS.filter(share => spent * 1000n >= bound.limit * share).length
      const name = `${bound.account} ${bound.period} ${bound.limit}`
      const told = this.#levels.get(name) ?? 0
      if (level === told) continue
      if (this.#levels.size >= MOST_LEVELS) this.#levels.clear()
      this.#levels.set(name, level)
      const { workspace_id } = actor
      const whole = getWholeAccount(bound.account)
      const owner = whole.startsWith('key ')
        ? actor
        : whole.startsWith('workspace ')
          ? { workspace_id, user_id: null }
          : null
      if (level > told)
        this.#tell(owner, () => buildLimitNear(this.#world, this.#now(), bound, spent))
    }
  }

  *#listRuns(): Iterable<Run> {
    for (const run of this.#world.traffic.calls.listRunning())
      if (run instanceof Run && run.within === null) yield run
  }

  #tellProgress(run: Run): void {
    const tokens = run.step?.meter?.tokensSoFar ?? 0
    const { id } = run.call
    if (tokens === (this.#progress.get(id) ?? 0)) return
    if (this.#progress.size >= MOST_PROGRESS && !this.#progress.has(id)) return
    this.#progress.set(id, tokens)
    const nanos = run.step?.spentSoFar?.()
    this.#tell(run.actor, () => ({
      ...{ type: 'call.progress', at: this.#now(), id, tokens },
      cost: nanos === undefined ? null : toUsd(nanos),
    }))
  }

  #buildState(since: number | null): State {
    const { traffic, clock } = this.#world
    return {
      ...{ type: 'state', at: this.#now() },
      running_calls: traffic.calls.size,
      draining: traffic.calls.draining,
      memory_bytes: process.memoryUsage.rss(),
      ...(since === null ? new Totals(clock.ticks()) : this.#totals).take(clock.ticks()),
      queues: countQueues(this.#world),
      endpoints: traffic.health.listStates(since),
    }
  }

  async #tellPast(listener: ActivityListener, actor: Actor, past: number): Promise<void> {
    for (const entry of await listPast(this.#world, actor, past))
      listener.add(JSON.stringify(entry))
  }

  /** Tells a new listener of the running calls and of all endpoints. */
  #tellPresent(listener: ActivityListener): void {
    const { viewer } = listener
    const add = (entry: ActivityEntry) => listener.add(JSON.stringify(entry))
    const { service_name } = this.#world.config
    add({ type: 'listening', at: this.#now(), service_name, version: VERSION })
    if (maySee(viewer, null)) add(this.#buildState(null))
    for (const run of this.#listRuns())
      if (maySee(viewer, run.actor)) {
        add(buildCallOpened(this.#world, run.createdAt, run))
        for (const attempt of run.attempts)
          add(buildAttemptStarted(run.createdAt, run.call.id, attempt))
      }
  }
}

const countQueues = ({ traffic, recorder, deliveries }: ExtensionWorld): Queues => ({
  calls: traffic.admission.turns.size,
  records: recorder.listPending().length,
  deliveries: deliveries.list().reduce((sum, { waiting }) => sum + waiting, 0),
})

/** Repeats some work, and returns the function that stops it. */
type Repeat = (work: () => void) => () => void

const startTimer: Repeat = work => {
  const timer = setInterval(work, TICK)
  timer.unref()
  return () => clearInterval(timer)
}

/** Whose an entry is: one of no workspace is for those who manage all of them. */
interface Owner {
  workspace_id: string | null
  user_id: string | null
}

const buildViewer = (world: ExtensionWorld, actor: Actor): Viewer => ({
  workspace_id: actor.kind === 'member' || canManageAll(world, actor) ? null : actor.workspace_id,
  user_id: actor.kind === 'member' ? actor.user_id : null,
  isOperator: actor.kind === 'operator',
})

const maySee = ({ workspace_id, user_id }: Viewer, owner: Owner | null): boolean =>
  (workspace_id === null || workspace_id === owner?.workspace_id) &&
  (user_id === null || user_id === owner?.user_id)

/** How many times to the first part are kept between two entries. */
const MOST_SAMPLES = 1_000

type Counted = Pick<
  State,
  | 'milliseconds'
  | 'finished'
  | 'failed'
  | 'refused'
  | 'tokens_prompt'
  | 'tokens_completion'
  | 'cost'
  | 'first_part_p50'
  | 'first_part_p95'
>

/** What the calls since the last `take` came to. */
class Totals {
  #since: number
  #finished = 0
  #failed = 0
  #refused = 0
  #prompt = 0
  #completion = 0
  #nanos = 0n
  #latencies: number[] = []

  /** Takes the time in steady milliseconds. */
  constructor(now: number) {
    this.#since = now
  }

  count(call: Generation): void {
    this.#finished += 1
    if (getCallStatus(call) >= 400) this.#failed += 1
    this.#prompt += call.native_tokens_prompt
    this.#completion += call.native_tokens_completion
    this.#nanos += call.total_cost ?? 0n
    if (call.latency !== null && this.#latencies.length < MOST_SAMPLES)
      this.#latencies.push(call.latency)
  }

  countRefusals(count: number): void {
    this.#refused += count
  }

  /** Returns the sums, and begins again. */
  take(now: number): Counted {
    const latencies = this.#latencies.sort((a, b) => a - b)
    const counted = {
      milliseconds: Math.round(now - this.#since),
      finished: this.#finished,
      failed: this.#failed,
      refused: this.#refused,
      tokens_prompt: this.#prompt,
      tokens_completion: this.#completion,
      cost: toUsd(this.#nanos),
      first_part_p50: pickRank(latencies, 0.5),
      first_part_p95: pickRank(latencies, 0.95),
    }
    this.#since = now
    this.#finished = this.#failed = this.#refused = this.#prompt = this.#completion = 0
    this.#nanos = 0n
    this.#latencies = []
    return counted
  }
}

const pickRank = (sorted: number[], share: number): number | null =>
  sorted[Math.ceil(share * sorted.length) - 1] ?? null

/**
 * Lists the calls that finished last, as the feed told them, oldest first: of the newest `count` of
 * the gateway those that the actor may see. Where the store cannot be read it is an alarm.
 */
async function listPast(
  world: ExtensionWorld,
  actor: Actor,
  count: number,
): Promise<ActivityEntry[]> {
  try {
    const newest = await world.store.generations.list({}, Math.min(count, MOST_PAST))
    return newest
      .filter(call => canRead(world, actor, call))
      .reverse()
      .map(call => buildCallFinished(world, call.settled_at, call))
  } catch {
    const at = world.clock.now().toISOString()
    return [{ type: 'alarm', at, name: 'past.unreadable', message: 'Past calls cannot be read' }]
  }
}

/** How many past calls a listener may be told of. */
export const MOST_PAST = 1_000

import type { Cancellation } from '../base/cancellation.ts'
import { GatewayError } from '../base/errors.ts'
import type { Config } from '../config.ts'
import type { StopCondition } from '../language/server-tools.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Counters, Grant } from '../limits/counters.ts'
import type { Actor } from '../resources/actor.ts'

/** What bounds the calls of providers that one call of a client leads to. */
interface TreeLimits {
  /** The calls of providers, tries of other endpoints among them. */
  calls: number
  /** How many of them at once. */
  at_once: number
  /** How many uses of tools a call may be inside. */
  depth: number
}

/** Returns the limits of the trees of an actor: of its key, of its workspace, or of all. */
export function getTreeLimits(
  { limits: { tree } }: Pick<Config, 'limits'>,
  { key_hash, workspace_id }: Pick<Actor, 'key_hash' | 'workspace_id'>,
): TreeLimits {
  const { keys, workspaces, calls, at_once, depth } = tree
  return { calls, at_once, depth, ...workspaces[workspace_id], ...keys[key_hash ?? ''] }
}

/** Says that a tree has nothing left for another turn, and by which of its bounds. */
export class TreeEnded extends GatewayError {
  readonly bound: string

  constructor(bound: string) {
    super(
      'rate_limit_exceeded',
      `Nothing is left for this within the request: ${bound} is reached.`,
    )
    this.bound = bound
  }
}

/** What a turn of a model may take, before it begins. */
interface TurnClaim {
  /** Whether the client's own call takes it: conditions are looked at before it already. */
  isRoot: boolean
  /** The most that it may cost, in nano-dollars, and its tokens. */
  nanos: bigint
  tokens: number
}

/** A turn that has begun. */
export class TreeTurn {
  readonly claim: TurnClaim
  readonly #tree: Tree
  /** Whether its first call of a provider, which is counted when it begins, is not made yet. */
  isUnmade = true
  isOver = false
  /** Whether it has a place of its own among the calls in flight. */
  hasPass = false

  constructor(tree: Tree, claim: TurnClaim) {
    this.#tree = tree
    this.claim = claim
  }

  /** Whether it may make another call of a provider. */
  hasCalls(): boolean {
    return this.isUnmade || this.#tree.hasCalls(1)
  }

  /** Counts calls of providers that it makes. */
  countCalls(count: number): void {
    this.#tree.calls += count - Number(this.isUnmade)
    this.isUnmade = false
  }

  /** Counts calls that it makes together. Throws `TreeEnded` if so many are not left. */
  requireCalls(count: number): void {
    if (!this.#tree.hasCalls(count)) throw new TreeEnded('limits.tree.calls')
    this.countCalls(count)
  }
}

/** A turn that waits for its beginning. */
interface WaitingTurn {
  claim: TurnClaim
  resolve(turn: TreeTurn): void
  reject(error: GatewayError): void
}

/** The calls in flight, of which a call of a client has one: others are taken while there are some. */
interface InFlight {
  has(key: string, amount: number): boolean
  add(key: string, amount: number): void
  giveBack(key: string, amount: number): void
}

/** What a tree is made of. */
interface TreeOptions {
  key: string
  limits: TreeLimits
  stops: StopCondition[]
  inFlight: InFlight
}

/** Creates the tree of a call. */
export function createTree(
  { config, traffic }: { config: Config; traffic: { admission: { calls: InFlight } } },
  { actor, call }: { actor: Actor; call: Work[Kind]['call'] },
): Tree {
  return new Tree({
    key: actor.key_hash ?? actor.kind,
    limits: getTreeLimits(config, actor),
    stops: call.kind === 'text' ? (call.serverTools?.stops ?? []) : [],
    inFlight: traffic.admission.calls,
  })
}

/**
 * The budget of one call of a client and of all that is asked within it. A turn of a model begins
 * only while every bound has something left; turns that run count at the most that they may cost, so
 * that those beside one another exceed a bound no more than one of them. Turns wait in their order.
 */
export class Tree {
  readonly limits: TreeLimits
  /** The calls of providers so far, with those that have a place. */
  calls = 0
  /** The first bound that left nothing for a turn or a use; null while none did. */
  endedBy: string | null = null
  /** The request of the next turn of the client's call, which is counted already. */
  spare: Grant | null = null
  /** The money that is set aside for that turn while tools run. */
  kept: Grant | null = null
  /** Whether the client's call has its last turn, so that none is to follow. */
  isLast = false
  readonly #key: string
  readonly #inFlight: InFlight
  #nanos: bigint | null = null
  readonly #tokens: number | null
  readonly #waiting: WaitingTurn[] = []
  #running = 0
  #spent = 0n
  #held = 0n
  #spentTokens = 0
  #heldTokens = 0

  constructor({ key, limits, stops, inFlight }: TreeOptions) {
    this.limits = limits
    this.#key = key
    this.#inFlight = inFlight
    for (const stop of stops)
      if (stop.type === 'max_cost' && !(this.#nanos !== null && this.#nanos <= stop.nanos))
        this.#nanos = stop.nanos
    const tokens = stops.flatMap(stop => (stop.type === 'max_tokens_used' ? stop.max_tokens : []))
    this.#tokens = tokens.length > 0 ? Math.min(...tokens) : null
  }

  /** Whether so many more calls of providers may be made, beside the last turn's. */
  hasCalls(count: number): boolean {
    return this.calls + count + (this.isLast ? 0 : 1) <= this.limits.calls
  }

  /** Returns the bound of the caller that is reached; null if none is. */
  findReached(): string | null {
    if (this.#nanos !== null && this.#spent >= this.#nanos) return 'max_cost'
    if (this.#tokens !== null && this.#spentTokens >= this.#tokens) return 'max_tokens_used'
    return null
  }

  /**
   * Begins a turn, after those that wait already. Throws `TreeEnded` if nothing is left for it, and
   * the reason of the cancellation.
   */
  async enter(claim: TurnClaim, cancellation: Cancellation): Promise<TreeTurn> {
    const { promise, resolve, reject } = Promise.withResolvers<TreeTurn>()
    const waiting = { claim, resolve, reject }
    this.#waiting.push(waiting)
    this.#beginTurns()
    try {
      return await cancellation.awaitUnlessCancelled(promise)
    } catch (thrown) {
      const at = this.#waiting.indexOf(waiting)
      if (at !== -1) this.#waiting.splice(at, 1)
      // It may have begun in the moment in which it was cancelled.
      else void promise.then(turn => this.leave(turn)).catch(() => undefined)
      throw thrown
    }
  }

  /** Ends a turn, with what it cost in nano-dollars and the tokens that it took. */
  leave(turn: TreeTurn, nanos = 0n, tokens = 0): void {
    if (turn.isOver) return
    turn.isOver = true
    if (turn.isUnmade) this.calls -= 1
    if (turn.hasPass) this.#inFlight.giveBack(this.#key, 1)
    this.#running -= 1
    this.#held -= turn.claim.nanos
    this.#heldTokens -= turn.claim.tokens
    this.#spent += nanos
    this.#spentTokens += tokens
    this.#beginTurns()
  }

  /** Counts what uses of tools may cost while they run, and what they cost when they have. */
  holdUses(nanos: bigint): (cost: bigint) => void {
    this.#held += nanos
    return cost => {
      this.#held -= nanos
      this.#spent += cost
      this.#beginTurns()
    }
  }

  /**
   * Prepares the next turn of the client's call: unless it is the last one, the turn after it is set
   * aside. Returns whether it is the last, as nothing is left for another. A promise only while other
   * nodes have to be asked.
   */
  prepareTurn(
    isLast: boolean,
    takeRequest: () => Grant | Promise<Grant>,
  ): boolean | Promise<boolean> {
    this.spare = null
    if (isLast || !this.hasCalls(1)) {
      this.isLast = true
      if (!isLast) this.end('limits.tree.calls')
      return true
    }
    try {
      const spare = takeRequest()
      return spare instanceof Promise
        ? spare.then(
            grant => this.#setTurnAside(grant),
            (thrown: unknown) => this.#endTurns(thrown),
          )
        : this.#setTurnAside(spare)
    } catch (thrown) {
      return this.#endTurns(thrown)
    }
  }

  #setTurnAside(spare: Grant): boolean {
    this.spare = spare
    this.isLast = false
    return false
  }

  #endTurns(thrown: unknown): boolean {
    this.isLast = true
    this.end(nameBound(GatewayError.from(thrown)) ?? throwAgain(thrown))
    return true
  }

  /** Notes which bound left nothing for a turn or a use. */
  end(bound: string): void {
    this.endedBy ??= bound
  }

  /** Gives back what was set aside for a turn that does not follow. */
  close(counters: Pick<Counters, 'give'>): void {
    if (this.spare) counters.give(this.spare, { isUnmade: true })
    if (this.kept) counters.give(this.kept)
    this.spare = null
    this.kept = null
  }

  #beginTurns(): void {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      const end = this.#findEnd(next.claim)
      if (!end && !this.#hasRoom(next.claim)) return
      this.#waiting.shift()
      if (end) next.reject(this.#refuse(end))
      else next.resolve(this.#begin(next.claim))
    }
  }

  #refuse(bound: string): TreeEnded {
    this.end(bound)
    return new TreeEnded(bound)
  }

  // The client's own call takes its last turn whatever was spent within it.
  #findEnd({ isRoot }: TurnClaim): string | null {
    if (!this.hasCalls(1)) return 'limits.tree.calls'
    return isRoot ? null : this.findReached()
  }

  #hasRoom({ isRoot }: TurnClaim): boolean {
    if (isRoot || this.#running === 0) return true
    if (this.#running >= this.limits.at_once || !this.#inFlight.has(this.#key, 1)) return false
    const mayCost = this.#nanos === null || this.#spent + this.#held < this.#nanos
    return mayCost && (this.#tokens === null || this.#spentTokens + this.#heldTokens < this.#tokens)
  }

  #begin(claim: TurnClaim): TreeTurn {
    const turn = new TreeTurn(this, claim)
    turn.hasPass = this.#running > 0
    if (turn.hasPass) this.#inFlight.add(this.#key, 1)
    this.calls += 1
    this.#running += 1
    this.#held += claim.nanos
    this.#heldTokens += claim.tokens
    return turn
  }
}

const throwAgain = (thrown: unknown): never => {
  throw thrown
}

/** Names the bound that left nothing for a turn; null for an error of another kind. */
export function nameBound(error: GatewayError): string | null {
  if (error instanceof TreeEnded) return error.bound
  if (error.type === 'payment_required') return error.type
  if (error.type !== 'rate_limit_exceeded') return null
  return error.message.replace('Rate limit exceeded: ', '')
}

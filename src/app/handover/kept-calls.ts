import type {
  KeptAnswer,
  KeptCall,
  KeptCalls,
  ToldCall,
} from '../../resources/idempotency/calls.ts'
import type { Channel } from './channel.ts'

/** The part of the gateway that remembers calls under clients’ keys. */
interface KeptWorld {
  clock: { now(): Date }
  config: { idempotency: { max_mib: number } }
  traffic: { keptCalls: KeptCalls }
}

/** Answers that go over to the other server, one after the other. */
export class GivenAnswers {
  readonly #channel: Channel
  #sent: Promise<unknown> = Promise.resolve()

  constructor(channel: Channel) {
    this.#channel = channel
  }

  /** Resolves when the other server has all of them. Never throws: it may have left. */
  get sent(): Promise<unknown> {
    return this.#sent
  }

  /** Sends one when those before it have arrived: no more than one is in memory twice. */
  send(name: string, answer: KeptAnswer | null): void {
    this.#sent = this.#sent.then(() =>
      this.#channel.ask('answer', name, answer).catch(() => undefined),
    )
  }
}

/**
 * Tells the server that has taken over which calls were made here under clients’ keys, and sends it
 * their answers: those that are there, and each that ends later. Calls that begin here are begun
 * there too.
 */
export function giveKeptCalls({ traffic: { keptCalls } }: KeptWorld, channel: Channel) {
  const given = new GivenAnswers(channel)
  const calls = keptCalls.list()
  channel.tell(
    'calls',
    calls.map(({ answer: _, ...told }) => told),
  )
  for (const { name, answer } of calls) if (answer) given.send(name, answer)
  keptCalls.shareWith({
    begin: async call => (await channel.ask('begin', call)) as KeptCall | null,
    end: (name, answer) => given.send(name, answer),
  })
  void channel.closed.then(() => keptCalls.shareWith(null))
  return given
}

const MIB = 1024 * 1024

/** Returns what remembers the calls of the server before this one, until that has ended. */
export function takeKeptCalls(world: KeptWorld, channel: Channel) {
  const { keptCalls } = world.traffic
  const expected = new Map<string, () => void>()
  function expect({ name, fingerprint, created_at, isOver }: ToldCall): void {
    const { promise, resolve } = Promise.withResolvers<void>()
    expected.set(name, resolve)
    const arriving = isOver ? promise : undefined
    keptCalls.put(name, { fingerprint, created_at, answer: null, arriving })
  }
  function take(name: string, answer: KeptAnswer | null): void {
    keptCalls.end(name, answer, world.config.idempotency.max_mib * MIB)
    expected.get(name)?.()
    expected.delete(name)
  }
  // What it has not sent is lost with it, as in any other server that is killed.
  void channel.closed.then(() => {
    for (const name of [...expected.keys()]) take(name, null)
  })
  return {
    calls: (told: ToldCall[]) => told.forEach(expect),
    begin(call: ToldCall): KeptCall | null {
      const known = keptCalls.find(call.name, world.clock.now().getTime())
      if (!known) expect(call)
      const { fingerprint, created_at, answer } = known ?? {}
      return fingerprint === undefined || created_at === undefined
        ? null
        : { fingerprint, created_at, answer: answer ?? null }
    },
    answer: take,
  }
}

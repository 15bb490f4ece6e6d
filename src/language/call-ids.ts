import type { Block, Message } from './message.ts'
import type { ReasoningDetail } from './reasoning.ts'

/**
 * The ids of a conversation's calls of tools. Some providers begin anew in each turn, or give all
 * calls of a turn one id: a call whose id another has gets one of its own, the same whenever the
 * conversation is read. A result answers the first call of its id that waits for one, of the last
 * turn that has such a call.
 */
export class CallIds {
  readonly #taken = new Set<string>()
  /** How often each id came, so that many of one are told apart at once. */
  readonly #counts = new Map<string, number>()
  /** The calls that wait for a result, by the ids that they came with. */
  readonly #waiting = new Map<string, { turn: number; ids: string[] }>()
  /** Counts the turns of the model: one begins with a call after a result. */
  #turn = 0
  #hasResult = false

  /** Takes a call of the model, and returns its id. */
  takeCall(given: string): string {
    if (this.#hasResult) this.#turn += 1
    this.#hasResult = false
    const id = this.#makeUnique(given)
    const waiting = this.#waiting.get(given)
    if (waiting?.turn === this.#turn) waiting.ids.push(id)
    else this.#waiting.set(given, { turn: this.#turn, ids: [id] })
    return id
  }

  /** Takes a result, and returns the id of the call that it answers; undefined if none waits. */
  takeResult(given: string): string | undefined {
    this.#hasResult = true
    return this.#waiting.get(given)?.ids.shift()
  }

  /** Whether any call has this id. */
  has(id: string): boolean {
    return this.#taken.has(id)
  }

  /** The user says something: what the model calls next is of another turn. */
  endTurn(): void {
    this.#hasResult = true
  }

  #makeUnique(given: string): string {
    let id = given
    // A provider that repeats one id does so in each turn.
    let n = this.#counts.get(given) ?? 1
    for (; this.#taken.has(id); n++) id = `${given}_${n + 1}`
    this.#counts.set(given, n)
    this.#taken.add(id)
    return id
  }
}

/** Returns the messages with ids of calls that no other call has; themselves if none is repeated. */
export function separateCallIds(messages: Message[]): Message[] {
  if (!hasRepeated(messages)) return messages
  const ids = new CallIds()
  return messages.map(message => {
    if (message.role === 'tool') {
      const tool_call_id = ids.takeResult(message.tool_call_id ?? '')
      return tool_call_id === undefined ? message : { ...message, tool_call_id }
    }
    if (message.role === 'user') ids.endTurn()
    const blocks = message.blocks.map(block =>
      block.type === 'tool-call' ? { ...block, id: ids.takeCall(block.id) } : block,
    )
    const renamed = { ...message, blocks }
    for (const [i, block] of message.blocks.entries())
      if (block.type === 'tool-call') renameThoughts(renamed, block.id, blocks[i])
    return renamed
  })
}

/** Has the thoughts of a message name a call by its new id: a signature may be for one call. */
export function renameThoughts(message: Message, given: string, call: Block | undefined): void {
  if (call?.type !== 'tool-call' || call.id === given) return
  // Another call of the message has kept that id, and the thoughts are for it.
  if (message.blocks.some(block => block.type === 'tool-call' && block.id === given)) return
  message.blocks = message.blocks.map(block =>
    block.type === 'reasoning' && block.details
      ? { ...block, details: block.details.map(one => renameDetail(one, given, call.id)) }
      : block,
  )
}

const renameDetail = (detail: ReasoningDetail, given: string, id: string): ReasoningDetail =>
  detail.id === given ? { ...detail, id } : detail

function hasRepeated(messages: Message[]): boolean {
  const known = new Set<string>()
  return messages.some(({ blocks }) =>
    blocks.some(block => {
      if (block.type !== 'tool-call') return false
      const isKnown = known.has(block.id)
      known.add(block.id)
      return isKnown
    }),
  )
}

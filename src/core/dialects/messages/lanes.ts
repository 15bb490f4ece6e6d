import type { Json } from '../../kernel/json.ts'
import { JsonText } from './json-text.ts'
import { signatureOf } from './thinking.ts'

/** A piece of content that is added to an open block. */
export type Delta =
  | { type: 'text_delta'; text: string }
  | { type: 'citations_delta'; citation: Json }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }

/** An event in the making of a message's content. Streams and whole answers use the same ones. */
export type Step =
  | { type: 'content_block_start'; index: number; content_block: Json }
  | { type: 'content_block_delta'; index: number; delta: Delta }
  | { type: 'content_block_stop'; index: number }

/** A block to begin. */
interface NewBlock {
  /** Consecutive pieces of the same name belong to one block. */
  name: string
  block: Json
  /** The reasoning entry that the block belongs to, without its text. */
  thought?: Json
}

/** A block that is open or waits to be opened. A waiting block keeps its deltas. */
export interface Lane extends NewBlock {
  started: boolean
  kept: Delta[]
  /** Finds the end of a tool's arguments. */
  input?: JsonText
  /** The arguments, if they are not a JSON object. */
  odd?: string
}

/**
 * The blocks of a message, in order. Anthropic's clients expect one open block at a time, numbered
 * from zero. Content of other blocks waits while a tool's arguments are incomplete (translation
 * trap 61).
 */
export class Lanes {
  #open: Lane | null = null
  #waiting: Lane[] = []
  #index = -1
  #steps: Step[] = []

  /** Returns the events since the previous call. */
  taken(): Step[] {
    const steps = this.#steps
    if (steps.length > 0) this.#steps = []
    return steps
  }

  /** Finds the block of the newest piece, if it has this name. */
  last(name: string): Lane | undefined {
    const last = this.#waiting.at(-1) ?? this.#open
    return last?.name === name ? last : undefined
  }

  /** Begins a block with its first deltas. */
  begin(given: NewBlock, kept: Delta[] = []): Lane {
    return this.#add({ ...given, started: false, kept })
  }

  /** Begins the block of a tool call, whose input follows. */
  beginTool(block: Json): Lane {
    return this.#add({ name: '', block, started: false, kept: [], input: new JsonText() })
  }

  /** Adds a delta to a block. */
  gain(lane: Lane, delta: Delta): void {
    if (lane === this.#open) this.#tell(lane, delta)
    else lane.kept.push(delta)
  }

  /** Adds a piece of a tool's input. Once the input is complete, the next block opens. */
  input(lane: Lane, piece: string): void {
    if (!lane.input) return
    const partial_json = lane.input.read(piece)
    if (lane.input.isObject === false) lane.odd = (lane.odd ?? '') + partial_json
    else if (partial_json) this.gain(lane, { type: 'input_json_delta', partial_json })
    if (lane === this.#open && lane.input.complete) this.#close(lane)
    this.#advance()
  }

  /** Closes the open block, and opens and closes those that wait, at the end of the answer. */
  end(): void {
    while (this.#open) {
      this.#close(this.#open)
      this.#advance()
    }
  }

  #add(lane: Lane): Lane {
    this.#waiting.push(lane)
    this.#advance()
    return lane
  }

  /** Opens the waiting blocks in turn, up to a tool whose arguments are incomplete. */
  #advance(): void {
    let opened = 0
    for (const lane of this.#waiting) {
      if (isBusy(this.#open)) break
      if (this.#open) this.#close(this.#open)
      this.#take(lane)
      opened += 1
    }
    if (opened > 0) this.#waiting = this.#waiting.slice(opened)
  }

  #take(lane: Lane): void {
    this.#open = lane
    // A reasoning block starts with its first delta: without text and signature it is left out.
    if (!lane.thought) this.#start(lane)
    for (const delta of lane.kept) this.#tell(lane, delta)
  }

  #close(lane: Lane): void {
    if (lane.thought) this.#sign(lane, signatureOf(lane.thought))
    if (lane.odd !== undefined)
      this.#tell(lane, {
        type: 'input_json_delta',
        partial_json: JSON.stringify(oddInput(lane.odd)),
      })
    if (lane.started) this.#steps.push({ type: 'content_block_stop', index: this.#index })
    this.#open = null
  }

  #sign(lane: Lane, signature: string): void {
    if (signature) this.#tell(lane, { type: 'signature_delta', signature })
  }

  #tell(lane: Lane, delta: Delta): void {
    this.#start(lane)
    this.#steps.push({ type: 'content_block_delta', index: this.#index, delta })
  }

  #start(lane: Lane): void {
    if (lane.started) return
    lane.started = true
    this.#index += 1
    this.#steps.push({ type: 'content_block_start', index: this.#index, content_block: lane.block })
  }
}

// Only a tool whose arguments are incomplete makes other blocks wait.
const isBusy = (lane: Lane | null): boolean => lane?.input !== undefined && !lane.input.complete

/**
 * Wraps arguments that are not a JSON object into one, as Anthropic's documentation does. Its
 * clients accept only objects.
 */
export const oddInput = (raw: string): Json => ({ INVALID_JSON: raw })

import { expect } from 'bun:test'
import { type Json, readObject, readString } from '../../src/base/json.ts'

/** An event of a streamed response. */
export type ResponseEvent = { type: string; sequence_number: number } & Json

/** Parses the events of a stream. Expects the name of each to be its type, and the end mark. */
export function parseEvents(wire: string): ResponseEvent[] {
  const blocks = wire.split('\n\n').filter(block => block !== '' && !block.startsWith(':'))
  expect(blocks.at(-1)).toBe('data: [DONE]')
  return blocks.slice(0, -1).map(block => {
    const [, name, data = ''] = /^event: (.+)\ndata: (.+)$/.exec(block) ?? []
    const event = JSON.parse(data)
    expect(event.type).toBe(name)
    return event
  })
}

const ENDS = ['response.completed', 'response.incomplete', 'response.failed']

/**
 * Assembles a response from its events as strictly as the format is written: numbers without a
 * gap, every life from its beginning to its end, nothing of an item that is whole. Returns the last
 * response, and expects its output to be what the events made.
 */
export function assembleResponse(events: ResponseEvent[]): Json {
  expect(events.map(event => event.sequence_number)).toEqual([...events.keys()])
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual([
    'response.created',
    'response.in_progress',
  ])
  expect(events.filter(({ type }) => ENDS.includes(type))).toHaveLength(1)
  const last = events.at(-1)
  expect(ENDS).toContain(last?.type ?? '')
  const items = new Items()
  for (const event of events.slice(2, -1)) items.read(event)
  const response = readObject(last ?? {}, 'response')
  expect(items.finish()).toEqual(response.output as Json[])
  expect(`response.${response.status}`).toBe(last?.type ?? '')
  return response
}

/** The items of a response, as a client makes them from events. */
class Items {
  readonly #items: Json[] = []
  readonly #isDone: boolean[] = []
  /** The pieces of each text, by where it stands. */
  readonly #pieces = new Map<string, string>()
  readonly #annotations = new Map<string, unknown[]>()

  read(event: ResponseEvent): void {
    const { type, output_index } = event
    // The latter is said again while the client waits.
    if (type === 'response.debug' || type === 'response.in_progress') return
    if (typeof output_index !== 'number') throw new Error(`${type} is about no item`)
    if (type === 'response.output_item.added') this.#add(output_index, event)
    else this.#change(output_index, event)
  }

  finish(): Json[] {
    expect(this.#isDone).toEqual(this.#items.map(() => true))
    expect([...this.#pieces.keys()]).toEqual([])
    return this.#items
  }

  #add(output_index: number, event: Json): void {
    expect(output_index).toBe(this.#items.length)
    this.#items.push(readObject(event, 'item'))
    this.#isDone.push(false)
  }

  #change(output_index: number, event: ResponseEvent): void {
    const item = this.#items[output_index]
    if (!item || this.#isDone[output_index]) throw new Error(`${event.type} is not of an open item`)
    if (event.type === 'response.output_item.done') this.#finish(output_index, event)
    else {
      // The events of some tools of a provider name only the place.
      if ('item_id' in event) expect(event.item_id).toBe(item.id)
      this.#readPiece(event.type, event)
    }
  }

  #finish(output_index: number, event: Json): void {
    const begun = this.#items[output_index] ?? {}
    const item = readObject(event, 'item')
    expect([item.id, item.type]).toEqual([begun.id, begun.type])
    this.#items[output_index] = item
    this.#isDone[output_index] = true
  }

  #readPiece(type: string, event: ResponseEvent): void {
    const [, kind = '', step = ''] = /^response\.(.+)\.(\w+)$/.exec(type) ?? []
    const { output_index, content_index = '', summary_index = '' } = event
    const place = `${kind} ${output_index} ${content_index} ${summary_index}`
    if (step === 'delta' && WHOLE[kind] !== undefined)
      this.#pieces.set(place, (this.#pieces.get(place) ?? '') + readString(event.delta))
    if (kind === 'output_text.annotation')
      this.#annotations.set(place, [...(this.#annotations.get(place) ?? []), event.annotation])
    if (step === 'done' && WHOLE[kind] !== undefined) {
      expect(this.#pieces.get(place) ?? '').toBe(readString(event[WHOLE[kind]]) ?? 'none')
      this.#pieces.delete(place)
    }
    if (kind === 'content_part' && step === 'done') this.#checkSources(event)
  }

  #checkSources({ output_index, content_index, part }: ResponseEvent): void {
    const { type, annotations } = part as Json
    const given = this.#annotations.get(`output_text.annotation ${output_index} ${content_index} `)
    if (type === 'output_text') expect(annotations).toEqual(given ?? [])
  }
}

/** The member of each `done` event that holds all pieces. */
const WHOLE: Record<string, string> = {
  output_text: 'text',
  refusal: 'refusal',
  function_call_arguments: 'arguments',
  reasoning_text: 'text',
  reasoning_summary_text: 'text',
  custom_tool_call_input: 'input',
  code_interpreter_call_code: 'code',
  apply_patch_call_operation_diff: 'diff',
  mcp_call_arguments: 'arguments',
}

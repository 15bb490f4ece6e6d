import { describe, expect, test } from 'bun:test'
import type { TextPart } from '../../../src/language/part.ts'
import { countInputTokens, countOutputTokens } from '../../../src/language/usage.ts'
import {
  anthropicMessages,
  parseAnswer,
} from '../../../src/translation/protocols/anthropic-messages.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'
import { collectParts } from '../../support/parts.ts'
import { hasRecordings, listRecordings, type Recording } from '../../support/recordings.ts'

const endpoint = buildEndpoint({ upstreamModel: 'claude-sonnet-4-5' })
const call = buildTextCall()
/** A client of Anthropic's own API, who has a word for everything. */
const native = buildTextCall({ dialect: 'messages' })

type Event = Record<string, never> & {
  type: string
  index: number
  content_block: Block
  delta: Record<string, string>
}
type Block = Record<string, unknown> & { type: string; text?: string }

const bodyOf = ({ lines }: Recording) =>
  JSON.parse(lines.join('')) as { content: Block[]; usage: Record<string, number> }
const eventsOf = ({ lines }: Recording) => lines.map(line => JSON.parse(line) as Event)

const partsOf = (recording: Recording, asked = call): TextPart[] =>
  recording.mode === 'whole'
    ? parseAnswer(bodyOf(recording), asked, endpoint)
    : streamedParts(recording, asked)

function streamedParts({ lines }: Recording, asked: typeof call): TextPart[] {
  const reader = anthropicMessages.createReader(asked, endpoint)
  return lines.flatMap(data => reader.read({ event: null, data }))
}

/** The kinds of blocks of an answer, in order. */
const kindsOf = (recording: Recording): string[] =>
  recording.mode === 'whole'
    ? bodyOf(recording).content.map(block => block.type)
    : eventsOf(recording).flatMap(event =>
        event.type === 'content_block_start' ? [event.content_block.type] : [],
      )

/** The words of an answer, put together without our reader. */
const wordsOf = (recording: Recording): string =>
  recording.mode === 'whole'
    ? bodyOf(recording)
        .content.map(block => (block.type === 'text' ? block.text : ''))
        .join('')
    : eventsOf(recording)
        .map(event =>
          event.type === 'content_block_delta' && event.delta.type === 'text_delta'
            ? event.delta.text
            : '',
        )
        .join('')

/** What is told of a block that only clients of this API have a word for. */
const ELSEWHERE = new Set(['text', 'thinking', 'redacted_thinking', 'tool_use'])

describe.skipIf(!hasRecordings)('anthropic-messages recordings (from GATEWAY_SHARED)', () => {
  const all = listRecordings('anthropic-messages').map(one => [one.name, one.mode, one] as const)
  const whole = all.filter(([, mode]) => mode === 'whole')

  test.each(all)('%s, %s, begins, ends once and is counted', (_name, _mode, recording) => {
    const given = partsOf(recording)
    const { upstream_id, usage } = collectParts(given)
    expect(given[0]?.type).toBe('start')
    expect(upstream_id).toStartWith('msg_')
    expect(given.filter(part => part.type === 'finish')).toHaveLength(1)
    expect(usage && countInputTokens(usage)).toBeGreaterThan(0)
  })

  test.each(all)('%s, %s, says what it says', (_name, _mode, recording) => {
    const { text, calls, finish, reasoning, details } = collectParts(partsOf(recording))
    const kinds = kindsOf(recording)
    expect(text).toBe(wordsOf(recording))
    expect(calls).toHaveLength(kinds.filter(kind => kind === 'tool_use').length)
    for (const { input } of calls) expect(() => JSON.parse(input)).not.toThrow()
    if (calls.length > 0) expect(finish?.reason).toBe('tool_calls')
    expect(reasoning !== '').toBe(kinds.includes('thinking'))
    if (kinds.includes('thinking'))
      expect(String(details.at(-1)?.signature).length).toBeGreaterThan(100)
  })

  test.each(all)(
    '%s, %s, loses nothing for a client of the same API',
    (_name, _mode, recording) => {
      const others = partsOf(recording, native).flatMap(part =>
        part.type === 'other' ? [part.value as Block] : [],
      )
      expect(others.map(({ type }) => type)).toEqual(
        kindsOf(recording).filter(kind => !ELSEWHERE.has(kind)),
      )
      const tools = others.filter(
        ({ type }) => type === 'server_tool_use' || type === 'mcp_tool_use',
      )
      for (const { name, input } of tools)
        if (name !== 'advisor') expect(Object.keys(input as object).length).toBeGreaterThan(0)
    },
  )

  test.each(whole)('%s, %s, gives back each block as it was', (_name, _mode, recording) => {
    const others = partsOf(recording, native).flatMap(part =>
      part.type === 'other' ? [part.value] : [],
    )
    expect(others).toEqual(bodyOf(recording).content.filter(({ type }) => !ELSEWHERE.has(type)))
  })

  test.each(whole)('%s, %s, counts what it says', (_name, _mode, recording) => {
    const {
      input_tokens = 0,
      cache_read_input_tokens = 0,
      cache_creation_input_tokens = 0,
      output_tokens,
    } = bodyOf(recording).usage
    const { usage } = collectParts(partsOf(recording))
    expect(usage && [countInputTokens(usage), countOutputTokens(usage)]).toEqual([
      input_tokens + cache_read_input_tokens + cache_creation_input_tokens,
      output_tokens as number,
    ])
  })
})

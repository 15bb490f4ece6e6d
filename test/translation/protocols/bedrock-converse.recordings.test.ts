import { describe, expect, test } from 'bun:test'
import { isObject, type Json, readObject, readObjects } from '../../../src/base/json.ts'
import type { TextPart } from '../../../src/language/part.ts'
import { countInputTokens, countOutputTokens } from '../../../src/language/usage.ts'
import { bedrockConverse } from '../../../src/translation/protocols/bedrock-converse.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'
import { collectParts } from '../../support/parts.ts'
import { hasRecordings, listRecordings, type Recording } from '../../support/recordings.ts'

const endpoint = buildEndpoint({
  protocol: 'bedrock-converse',
  upstreamModel: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
})
const call = buildTextCall()

const bodyOf = ({ lines }: Recording): Json => JSON.parse(lines.join(''))
const eventsOf = ({ lines }: Recording) =>
  lines.flatMap(line => Object.entries<Json>(JSON.parse(line)))

function partsOf(recording: Recording): TextPart[] {
  if (recording.mode === 'whole')
    return bedrockConverse.parseAnswer(bodyOf(recording), call, endpoint)
  const reader = bedrockConverse.createReader(call, endpoint)
  const parts = eventsOf(recording).flatMap(([event, told]) =>
    reader.read({ event, data: JSON.stringify(told) }),
  )
  return [...parts, ...(reader.end?.() ?? [])]
}

/** The blocks of a whole answer, or what each event of a stream adds to one. */
const piecesOf = (recording: Recording): Json[] =>
  recording.mode === 'whole'
    ? readObjects(readObject(readObject(bodyOf(recording), 'output'), 'message').content)
    : eventsOf(recording).flatMap(([event, told]) =>
        event === 'contentBlockDelta' ? [readObject(told, 'delta')] : [],
      )

/** How many calls begin in it. */
const callsIn = (recording: Recording): number =>
  recording.mode === 'whole'
    ? piecesOf(recording).filter(piece => isObject(piece.toolUse)).length
    : eventsOf(recording).filter(
        ([event, told]) =>
          event === 'contentBlockStart' && isObject(readObject(told, 'start').toolUse),
      ).length

const countOf = (recording: Recording): Json | null => {
  const told =
    recording.mode === 'whole'
      ? bodyOf(recording)
      : eventsOf(recording).find(([event]) => event === 'metadata')?.[1]
  return told ? readObject(told, 'usage') : null
}

describe.skipIf(!hasRecordings)('bedrock-converse recordings (from GATEWAY_SHARED)', () => {
  const all = listRecordings('bedrock-converse').map(one => [one.name, one.mode, one] as const)

  test.each(all)('%s, %s, says what it says', (_name, _mode, recording) => {
    const { text, calls, finish } = collectParts(partsOf(recording))
    expect(text).toBe(
      piecesOf(recording)
        .map(piece => piece.text ?? '')
        .join(''),
    )
    expect(calls).toHaveLength(callsIn(recording))
    for (const { id, name, input } of calls)
      expect([id !== '', name !== '', isObject(JSON.parse(input))]).toEqual([true, true, true])
    expect(finish?.reason).toBe(calls.length > 0 ? 'tool_calls' : 'stop')
  })

  test.each(all)(
    '%s, %s, begins and ends once, and counts what it counts',
    (_name, _mode, recording) => {
      const parts = partsOf(recording)
      expect(parts[0]?.type).toBe('start')
      expect(parts.filter(part => part.type === 'finish')).toHaveLength(1)
      const { usage } = collectParts(parts)
      const counted = countOf(recording)
      expect(usage && [countInputTokens(usage), countOutputTokens(usage)]).toEqual(
        counted && [counted.inputTokens as number, counted.outputTokens as number],
      )
    },
  )

  test.each(all.filter(([name]) => name.includes('reasoning')))(
    '%s, %s, thinks, and signs it',
    (_name, _mode, recording) => {
      const { reasoning, details } = collectParts(partsOf(recording))
      expect(reasoning).toContain('s-t-r-a-w-b-e-r-r-y')
      expect(details.map(detail => detail.text).join('')).toBe(reasoning)
      expect(details.filter(detail => detail.signature !== undefined)).toHaveLength(1)
      expect(String(details.at(-1)?.signature).length).toBeGreaterThan(100)
    },
  )
})

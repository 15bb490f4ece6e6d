import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Block, Message } from '../../../src/language/message.ts'
import {
  AUDIO,
  boundJsonTokens,
  boundTokens,
  CALL_EXTRA,
  computeContentBound,
  computeLargestContent,
  EXTRA,
  FILE,
  getFacts,
  IMAGE,
  NAMES,
  OTHER,
  REASONING,
  VIDEO,
} from '../../../src/translation/tokenizers/prompt.ts'
import { messages } from '../../suites/kind/text.ts'

const hasExtra = (block: Block) => 'extra' in block && block.extra !== undefined

/** What each feature says, one look at all messages for each. */
const FEATURES: [bit: number, isMeant: (block: Block) => boolean][] = [
  [IMAGE, ({ type }) => type === 'image'],
  [AUDIO, ({ type }) => type === 'audio'],
  [VIDEO, ({ type }) => type === 'video'],
  [FILE, ({ type }) => type === 'file'],
  [REASONING, ({ type }) => type === 'reasoning'],
  [OTHER, ({ type }) => type === 'other'],
  [EXTRA, hasExtra],
  [CALL_EXTRA, block => block.type === 'tool-call' && hasExtra(block)],
]

function readText(block: Block): string {
  if (block.type === 'tool-call') return `${block.name} ${block.input}`
  return 'text' in block ? (block.text ?? '') : ''
}

const sum = (numbers: number[]) => numbers.reduce((all, one) => all + one, 0)

function readSlowly(conversation: Message[]) {
  const blocks = conversation.flatMap(message => message.blocks)
  const expected = computeContentBound(blocks)
  const largest = computeLargestContent(blocks)
  const besides = conversation.map(
    ({ name, extra }) => boundTokens(name ?? '') + boundJsonTokens(extra),
  )
  const framing = 3 * conversation.length
  const bits = FEATURES.flatMap(([bit, isMeant]) => (blocks.some(isMeant) ? [bit] : []))
  if (conversation.some(({ name }) => name !== undefined)) bits.push(NAMES)
  return {
    features: sum(bits),
    leastTokens: Math.floor(sum(blocks.map(block => Buffer.byteLength(readText(block)))) / 12),
    expected: { ...expected, text: expected.text + framing },
    largest: { ...largest, text: largest.text + framing + sum(besides) },
  }
}

test('the facts of a conversation are what looks at all its messages find', () => {
  fc.assert(
    fc.property(fc.array(messages, { maxLength: 6 }), conversation => {
      const facts = getFacts(conversation)
      expect(facts).toEqual(readSlowly(conversation))
      expect(getFacts(conversation)).toBe(facts)
      expect(getFacts(conversation.slice(1))).toEqual(readSlowly(conversation.slice(1)))
    }),
    { numRuns: 300 },
  )
})

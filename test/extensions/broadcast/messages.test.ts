import { expect, test } from 'bun:test'
import { renderInput } from '../../../src/extensions/broadcast/messages.ts'
import type { TextCall } from '../../../src/language/call.ts'

const LONGEST = 10_000_000

/** Renders a conversation of messages with these texts, and returns how long each has become. */
const measure = (...texts: string[]): number[] => {
  const messages = texts.map(text => ({ role: 'user', blocks: [{ type: 'text', text }] }))
  const rendered = renderInput('text', { messages } as unknown as TextCall)
  return rendered.map(message => (message as { content: string }).content.length)
}

test('what was asked is told up to its longest, in the order of its messages', () => {
  const half = 'a'.repeat(LONGEST / 2)
  expect(measure(half, half)).toEqual([LONGEST / 2, LONGEST / 2])
  expect(measure(half, `${half}b`, 'c')).toEqual([LONGEST / 2, LONGEST / 2, 0])
  expect(measure('ab', half, half)).toEqual([2, LONGEST / 2, LONGEST / 2 - 2])
})

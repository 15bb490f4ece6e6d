import { expect, test } from 'bun:test'
import type { Block } from '../../../src/core/language/message.ts'
import {
  foreignContent,
  foreignTool,
  requireFunctionTool,
} from '../../../src/core/protocols/native.ts'

const TOO_LONG = 'x'.repeat(1000)

test.each([
  ['the name of its kind', { type: 'web_search' }, 'web_search'],
  ['no more of it than a name has', { type: TOO_LONG }, TOO_LONG.slice(0, 64)],
  ['no name where it has none', { type: { toString: 1 } }, 'it'],
  ['no name where it is nothing', null, 'it'],
])('refuses a foreign tool or block with %s', (_, value, kind) => {
  const refused = { type: 'invalid_request', metadata: { field: 'tools.3' } }
  expect(foreignTool(value, 3)).toMatchObject({
    ...refused,
    message: `tools.3: ${kind} is a tool that this model’s provider does not have`,
  })
  const block: Block = { type: 'other', dialect: 'chat', value }
  expect(foreignContent(block).message).toBe(
    `messages: ${kind} is content that this model’s provider does not take`,
  )
})

test('refuses content of a known kind by our name for it', () => {
  expect(foreignContent({ type: 'audio', data: '', format: 'wav' }).message).toContain(
    'messages: audio is content',
  )
})

test('accepts functions and no other tools', () => {
  const given = { type: 'function' as const, name: 'look' }
  expect(requireFunctionTool(given, 0)).toBe(given)
  expect(() =>
    requireFunctionTool({ type: 'other', dialect: 'chat', value: { type: 'custom' } }, 1),
  ).toThrow('tools.1: custom is a tool')
})

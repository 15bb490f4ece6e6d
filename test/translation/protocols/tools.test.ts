import { expect, test } from 'bun:test'
import {
  fitId,
  type NameRules,
  parseInputObject,
  readInputText,
  renderInputJson,
  ToolNames,
  toMistralCallId,
} from '../../../src/translation/protocols/tools.ts'
import { buildTextCall } from '../../support/call.ts'

const RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }
const STRICT: NameRules = { ...RULES, badStart: /^[^a-zA-Z_]/ }

const namesOf = (names: string[], rules = RULES) =>
  new ToolNames(buildTextCall({ tools: names.map(name => ({ type: 'function', name })) }), rules)

test('trap 22: keeps an allowed name, and replaces any other and translates it back', () => {
  const given = ['get_weather', 'mcp.files/read', '1st', 'ä', 'x'.repeat(80)]
  const names = namesOf(given, STRICT)
  const sent = given.map(name => names.toWire(name))
  expect(sent.slice(0, 4)).toEqual(['get_weather', 'mcp_files_read', '_1st', '_'])
  for (const name of sent) expect(name).toMatch(/^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/)
  expect(sent.map(name => names.toClient(name))).toEqual(given)
})

test('keeps two names distinct that would become the same', () => {
  const names = namesOf(['a.b', 'a/b', 'a_b'])
  const sent = ['a.b', 'a/b', 'a_b'].map(name => names.toWire(name))
  expect(new Set(sent).size).toBe(3)
  expect(sent[2]).toBe('a_b')
  expect(sent.map(name => names.toClient(name))).toEqual(['a.b', 'a/b', 'a_b'])
})

test('knows the tools of the history too, and passes on unknown names', () => {
  const messages = [
    {
      role: 'assistant' as const,
      blocks: [{ type: 'tool-call' as const, id: '1', name: 'old.tool', input: '{}' }],
    },
  ]
  const names = new ToolNames(buildTextCall({ messages }), RULES)
  expect(names.toClient(names.toWire('old.tool'))).toBe('old.tool')
  expect([names.toWire('new'), names.toClient('new')]).toEqual(['new', 'new'])
})

test('trap 21: keeps an allowed id, and replaces any other with a stable and unique one', () => {
  expect(fitId('toolu_01A-b', RULES)).toBe('toolu_01A-b')
  const long = `call_${'a'.repeat(40)}|fc_${'b'.repeat(40)}`
  for (const id of ['functions.x:0', long, '', 'ü']) {
    expect(fitId(id, RULES)).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(fitId(id, RULES)).toBe(fitId(id, RULES))
  }
  expect(fitId('functions.x:0', RULES)).not.toBe(fitId('functions_x.0', RULES))
})

test('trap 21: keeps an id of nine characters, and replaces any other with a stable one', () => {
  expect(toMistralCallId('abcDEF123')).toBe('abcDEF123')
  const ids = ['tooluse_bpe71yCfRu2b5i-nKGDr5g', 'call_1', 'abcDEF12-', '']
  const fitting = ids.map(toMistralCallId)
  for (const id of fitting) expect(id).toMatch(/^[a-zA-Z0-9]{9}$/)
  expect(new Set(fitting).size).toBe(ids.length)
  expect(ids.map(toMistralCallId)).toEqual(fitting)
})

test('arguments are a text, or an object serialized, and nothing else', () => {
  expect(['{"a":', { a: 1 }, [], 7, null, undefined].map(readInputText)).toEqual([
    '{"a":',
    '{"a":1}',
    '',
    '',
    '',
    '',
  ])
})

test('missing arguments are an empty object', () => {
  expect(['', ' \n', '{"a":1}', '{"a":'].map(renderInputJson)).toEqual([
    '{}',
    '{}',
    '{"a":1}',
    '{"INVALID_JSON":"{\\"a\\":"}',
  ])
})

test('arguments that are no object go back as the model wrote them', () => {
  const inputs = ['', '{"a":1}', '{"a":', '[1]']
  expect(inputs.map(input => parseInputObject(input))).toEqual([
    {},
    { a: 1 },
    { INVALID_JSON: '{"a":' },
    { INVALID_JSON: '[1]' },
  ])
  expect(parseInputObject('[1]', 'arguments')).toEqual({ arguments: '[1]' })
})

import { expect, test } from 'bun:test'
import { inputJson, inputObject, inputText } from '../../../src/core/protocols/tool-input.ts'

test('arguments are the text that was given, an object written out, and nothing else', () => {
  expect(['{"a":', { a: 1 }, [], 7, null, undefined].map(inputText)).toEqual(['{"a":', '{"a":1}', '', '', '', ''])
})

test('none at all are an empty object', () => {
  expect(['', ' \n', '{"a":1}', '{"a":'].map(inputJson)).toEqual(['{}', '{}', '{"a":1}', '{"a":'])
})

test('what is no object goes back as the model wrote it', () => {
  const inputs = ['', '{"a":1}', '{"a":', '[1]']
  expect(inputs.map(input => inputObject(input))).toEqual([{}, { a: 1 }, { INVALID_JSON: '{"a":' }, { INVALID_JSON: '[1]' }])
  expect(inputObject('[1]', 'arguments')).toEqual({ arguments: '[1]' })
})

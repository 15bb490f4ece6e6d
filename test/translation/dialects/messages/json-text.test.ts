import { expect, test } from 'bun:test'
import { JsonTextScanner } from '../../../../src/translation/dialects/messages/block-queue.ts'

const OBJECT = ' {"a}\\"{":[{"b":"\\\\"},{}],"c":{"d":"]}"}}'

test('the end of an object is found however its text is split', () => {
  for (let at = 0; at <= OBJECT.length; at++) {
    const json = new JsonTextScanner()
    expect(json.read(OBJECT.slice(0, at)) + json.read(`${OBJECT.slice(at)} {"more":1}`)).toBe(
      OBJECT,
    )
    expect(json).toMatchObject({ isObject: true, complete: true })
  }
})

test('a truncated object has no end', () => {
  for (let at = 2; at < OBJECT.length; at++) {
    const json = new JsonTextScanner()
    json.read(OBJECT.slice(0, at))
    expect(json).toMatchObject({ isObject: true, complete: false })
  }
})

test.each(['[{}]', '"{}"', '5', 'null', '}', ']{}', 'x{}'])('%s is not an object', text => {
  const json = new JsonTextScanner()
  expect(json.read(text)).toBe(text)
  expect(json).toMatchObject({ isObject: false, complete: false })
})

test('white space alone does not tell what follows', () => {
  const json = new JsonTextScanner()
  json.read(' \n')
  expect(json.isObject).toBeUndefined()
})

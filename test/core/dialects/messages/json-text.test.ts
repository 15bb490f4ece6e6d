import { expect, test } from 'bun:test'
import { JsonText } from '../../../../src/core/dialects/messages/json-text.ts'

const OBJECT = ' {"a}\\"{":[{"b":"\\\\"},{}],"c":{"d":"]}"}}'

test('the end of an object is found wherever it is cut', () => {
  for (let at = 0; at <= OBJECT.length; at++) {
    const json = new JsonText()
    expect(json.read(OBJECT.slice(0, at)) + json.read(`${OBJECT.slice(at)} {"more":1}`)).toBe(
      OBJECT,
    )
    expect(json).toMatchObject({ isObject: true, complete: true })
  }
})

test('an object that was cut has no end', () => {
  for (let at = 2; at < OBJECT.length; at++) {
    const json = new JsonText()
    json.read(OBJECT.slice(0, at))
    expect(json).toMatchObject({ isObject: true, complete: false })
  }
})

test.each(['[{}]', '"{}"', '5', 'null', '}', ']{}', 'x{}'])('%s is no object', text => {
  const json = new JsonText()
  expect(json.read(text)).toBe(text)
  expect(json).toMatchObject({ isObject: false, complete: false })
})

test('of white space nothing can be said yet', () => {
  const json = new JsonText()
  json.read(' \n')
  expect(json.isObject).toBeUndefined()
})

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { isObject } from '../../src/base/json.ts'
import { ObjectScanner } from '../../src/base/json-object.ts'

/** Returns what a scanner says of a text in these pieces. */
function scan(pieces: string[]) {
  const scanner = new ObjectScanner()
  let [read, end] = [0, -1]
  for (const piece of pieces) {
    const at = scanner.read(piece)
    if (at !== -1) end = read + at
    read += piece.length
  }
  return { state: scanner.state, end }
}

const isObjectText = (text: string): boolean => {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}

test.each([
  ['', 'empty'],
  [' \n', 'empty'],
  ['{"a":1}', 'whole'],
  [' { "a" : [1, {"b": null}, "}"], "c": -1.5e+10, "d": true } ', 'whole'],
  ['{"a":"\\ud83d\\"\\\\"}', 'whole'],
  ['{"a":', 'open'],
  ['{"a":"}', 'open'],
  ['{"a":1', 'open'],
  ['[1]', 'broken'],
  ['"x"', 'broken'],
  ['null', 'broken'],
  ["{'a':1}", 'broken'],
  ['{"a":1,}', 'broken'],
  ['{"a" 1}', 'broken'],
  ['{"a":01}', 'broken'],
  ['{"a":tru}', 'broken'],
  ['{"a":1]', 'broken'],
  ['{"a":"\n"}', 'broken'],
  ['{"a":"\\x"}', 'broken'],
  ['{"a":"\\u12g4"}', 'broken'],
  ['{,}', 'broken'],
  ['{"a":{}', 'open'],
  ['{"a":[}', 'broken'],
])('%s is %s', (text, state) => {
  expect(scan([text]).state).toBe(state as never)
  expect(scan([...text]).state).toBe(state as never)
})

test('it ends behind the first object, wherever it is cut', () => {
  for (let at = 0; at <= 8; at++) {
    const text = '{"a":1}{"a":2}'
    expect(scan([text.slice(0, at), text.slice(at)])).toMatchObject({ state: 'whole', end: 7 })
  }
})

test('deep nesting ends, and so do endless numbers', () => {
  expect(scan(['{"a":'.repeat(6_000)]).state).toBe('broken')
  expect(scan([`{"a":${'1'.repeat(2_000)}`]).state).toBe('broken')
})

test('it agrees with the parser, for objects and for what is made of them by one change', () => {
  const change = fc.record({
    at: fc.nat(),
    drop: fc.nat(2),
    add: fc.constantFrom(...'{}[]",:\\u1-.e tn'),
  })
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.option(change),
      fc.nat(40),
      (object, changed, size) => {
        const text = JSON.stringify(object)
        const at = changed ? changed.at % text.length : 0
        const given = changed
          ? text.slice(0, at) + changed.add + text.slice(at + changed.drop)
          : text
        const pieces = given.match(new RegExp(`[^]{1,${size + 1}}`, 'g')) ?? []
        const { state, end } = scan(pieces)
        expect(state === 'whole' && given.slice(end).trim() === '').toBe(isObjectText(given))
        // What is open could still become an object: it is the beginning of one.
        if (state === 'whole') expect(isObjectText(given.slice(0, end))).toBe(true)
      },
    ),
    { numRuns: 500 },
  )
})

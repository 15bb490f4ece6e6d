import { expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import fc from 'fast-check'
import { GatewayError } from '../../../src/base/errors.ts'
import {
  checkRequestFile,
  parseLine,
  readLines,
} from '../../../src/resources/files/request-lines.ts'

async function* cut(bytes: Uint8Array, sizes: number[]) {
  for (let [start, i] = [0, 0]; start < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1
    yield bytes.subarray(start, start + size)
    start += size
  }
}

async function list(text: string, sizes: number[]): Promise<[number: number, text: string][]> {
  const lines: [number, string][] = []
  for await (const { number, bytes } of readLines(cut(Buffer.from(text), sizes)))
    lines.push([number, Buffer.from(bytes).toString()])
  return lines
}

test('any file is read line by line, however its pieces are cut', async () => {
  const parts = fc.array(fc.constantFrom('a', '{}', ' ', '\t', '\r', '\n', '\n', 'é', '\u00a0'))
  const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(parts, sizes, async (some, cuts) => {
      const text = some.join('')
      const expected = text
        .split('\n')
        .map((line, i): [number, string] => [i + 1, line.replace(/^[ \t\r]+/, '')])
        .filter(([, line]) => line !== '')
      expect(await list(text, cuts)).toEqual(expected)
    }),
  )
})

test('a file of white space alone makes nothing for a line, nor calls for a byte', async () => {
  const prototype = Uint8Array.prototype
  const { subarray, every, indexOf } = prototype
  let calls = 0
  const count = <Method extends (...options: never[]) => unknown>(method: Method) =>
    function (this: Uint8Array, ...options: never[]) {
      calls += 1
      return method.apply(this, options)
    } as Method
  const bytes = Buffer.from(`${' '.repeat(10_000)}\n${'\n \r\n'.repeat(30_000)}`)
  try {
    Object.assign(prototype, { subarray: count(subarray), indexOf: count(indexOf) })
    prototype.every = function (test) {
      return every.call(this, (...options) => {
        calls += 1
        return test(...options)
      })
    }
    for await (const line of readLines(cut(bytes, [65_536]))) throw new Error(`${line.number}`)
  } finally {
    Object.assign(prototype, { subarray, every, indexOf })
  }
  expect(calls).toBeLessThan(20)
})

test('a refusal names the line, and lines of white space count', async () => {
  const refused = await checkRequestFile(cut(Buffer.from('\n \n\r\n  {}'), [2])).catch(
    GatewayError.from,
  )
  expect(refused).toMatchObject({ status: 400, message: expect.stringMatching(/^line 4: /) })
})

test('others have their turn while a long line is read, which can be read again', async () => {
  const text = '\\'.repeat(8 * 1024 * 1024)
  // Nothing else shares its memory, so that a reader could give it back.
  const bytes = new TextEncoder().encode(JSON.stringify({ custom_id: 'a', body: { text } })).slice()
  const schema = Type.Object({ custom_id: Type.String() }, { additionalProperties: true })
  let turns = 0
  const count = setInterval(() => {
    turns += 1
  }, 0)
  const first = await parseLine({ number: 1, bytes }, schema)
  clearInterval(count)
  expect(turns).toBeGreaterThanOrEqual(1)
  expect(first).toEqual({ custom_id: 'a', body: { text } } as never)
  expect(await parseLine({ number: 1, bytes }, schema)).toEqual(first)
})

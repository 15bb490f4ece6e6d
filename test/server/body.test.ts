import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { GatewayError } from '../../src/base/errors.ts'
import { readBody, readQuery } from '../../src/server/body.ts'

const Schema = Type.Object({
  count: Type.Optional(Type.Integer({ minimum: 1 })),
  settings: Type.Optional(Type.Object({}, { additionalProperties: true })),
  input: Type.Optional(Type.Unknown()),
})

const LONG = '12345678901234567890'
const read = (body: string) =>
  readBody(new Request('http://localhost', { method: 'POST', body }), Schema)
const failure = (body: string) => read(body).then(() => undefined, GatewayError.from)

describe('an integer that JavaScript would round', () => {
  test('trap 26: is kept as written', async () => {
    const text = `{"input":{"id":${LONG},"ids":[-9007199254740993],"text":"1234567890123456"}}`
    expect(JSON.stringify(await read(text))).toBe(text)
  })

  test('is not accepted as a number', async () => {
    expect(await failure(`{"count":${LONG}}`)).toMatchObject({
      status: 400,
      metadata: { field: 'count' },
    })
    expect((await failure(`{"count":${LONG}}`))?.message).toBe(
      'count: expected integer from 1, found a number too long to be kept exactly',
    )
  })

  test('is not accepted as an object', async () => {
    expect(await failure(`{"settings":${LONG}}`)).toMatchObject({
      status: 400,
      metadata: { field: 'settings' },
    })
    expect((await failure(`{"settings":${LONG}}`))?.message).toStartWith(
      'settings: expected object, found 123456789',
    )
    expect(await failure(LONG)).toMatchObject({ status: 400, metadata: { field: 'body' } })
  })

  test('does not affect the others', async () => {
    expect(await read(`{"count":9007199254740991,"input":"${LONG}"}`)).toEqual({
      count: Number.MAX_SAFE_INTEGER,
      input: LONG,
    })
    expect(await failure(`{"count":"x","input":${LONG}}`)).toMatchObject({
      metadata: { field: 'count' },
    })
    expect(await failure(`{"input":${LONG}`)).toMatchObject({
      status: 400,
      message: 'body: expected valid JSON in UTF-8',
    })
  })
})

describe('a query', () => {
  const Page = Type.Object({ offset: Type.Optional(Type.Integer({ minimum: 0 })) })
  const request = (query: string) => new Request(`http://localhost/?${query}`)

  test.each(['limit=2', 'limit=-1', 'limit=x', 'toString=1', '__proto__=1', 'constructor=1'])(
    'has nothing that its schema does not declare: %s',
    extra => {
      expect(readQuery(request(`offset=3&${extra}`), Page)).toEqual({ offset: 3 })
    },
  )

  test('that is closed refuses it', () => {
    const closed = Type.Object(Page.properties, { additionalProperties: false })
    expect(() => readQuery(request('limit=2'), closed)).toThrow('limit')
  })
})

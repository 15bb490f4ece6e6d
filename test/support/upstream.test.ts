import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type Outcome, request } from './raw-client.ts'
import {
  bomSse,
  chunkedEnd,
  closeDelimited,
  completion,
  crlfSse,
  cutInsideChunk,
  cutInsideTrailer,
  delta,
  done,
  ending,
  errorInside200,
  extraBytesAfterBody,
  finish,
  garbageSse,
  head,
  headerDrip,
  htmlError,
  hugeLine,
  inOneWrite,
  json,
  midError,
  noUsage,
  refusedPort,
  resetAtOnce,
  resetMidStream,
  type Script,
  shortContentLength,
  silence,
  silenceMidStream,
  slowDrip,
  splitUtf8,
  sseHead,
  startUpstream,
  status,
  stream,
  truncatedStream,
  type Upstream,
  usageChunk,
  usageTwice,
} from './upstream.ts'

let upstream: Upstream

beforeEach(async () => {
  upstream = await startUpstream()
})

afterEach(() => upstream.close())

const post = (body: unknown = { model: 'test-model' }) =>
  request(`${upstream.url}/chat/completions`, { json: body })
const fetched = (init: RequestInit = {}) =>
  fetch(`${upstream.url}/chat/completions`, { method: 'POST', body: '{}', ...init })

type Chunk = {
  choices?: { delta?: { content?: string }; finish_reason?: string | null }[]
  usage?: object
  error?: object
}

/** Reads a stream tolerantly: events that are not chat chunks are skipped. */
function heard(body: string) {
  const data = body
    .split(/\r?\n/)
    .flatMap(line => (/^\uFEFF?data: /.test(line) ? [line.replace(/^\uFEFF?data: /, '')] : []))
  const chunks = data.flatMap(chunkIn)
  return {
    text: chunks.map(chunk => chunk.choices?.[0]?.delta?.content ?? '').join(''),
    finishes: chunks.filter(chunk => chunk.choices?.[0]?.finish_reason).length,
    usages: chunks.filter(chunk => chunk.usage).length,
    errors: chunks.filter(chunk => chunk.error).length,
    dones: data.filter(line => line === '[DONE]').length,
  }
}

function chunkIn(line: string): Chunk[] {
  try {
    const value = JSON.parse(line)
    return value instanceof Object ? [value] : []
  } catch {
    return []
  }
}

const GOOD = { text: 'Hello', finishes: 1, usages: 1, errors: 0, dones: 1 }
const CUT = { text: 'Hello', finishes: 0, usages: 0, errors: 0, dones: 0 }

type Case = [
  name: string,
  script: () => Script,
  heard: object,
  wire: Partial<Outcome>,
  fetch: 'whole' | 'ECONNRESET',
]

const whole = { status: 200, complete: true, ended: 'clean' } as const
const cut = { status: 200, complete: false, ended: 'clean' } as const

const STREAMS: Case[] = [
  ['stream', stream, GOOD, whole, 'whole'],
  ['inOneWrite', inOneWrite, GOOD, whole, 'whole'],
  ['slowDrip', () => slowDrip(0), GOOD, whole, 'whole'],
  ['bomSse', bomSse, GOOD, whole, 'whole'],
  ['crlfSse', crlfSse, GOOD, whole, 'whole'],
  ['splitUtf8', splitUtf8, { ...GOOD, text: 'Hello 🌍' }, whole, 'whole'],
  ['garbageSse', garbageSse, GOOD, whole, 'whole'],
  ['usageTwice', usageTwice, { ...GOOD, usages: 2 }, whole, 'whole'],
  ['noUsage', noUsage, { ...GOOD, usages: 0 }, whole, 'whole'],
  ['midError', midError, { ...CUT, errors: 1 }, whole, 'whole'],
  ['truncatedStream', truncatedStream, CUT, whole, 'whole'],
  ['closeDelimited', closeDelimited, CUT, whole, 'whole'],
  // fetch accepts a body that lacks only its last blank line.
  ['cutInsideTrailer', cutInsideTrailer, CUT, cut, 'whole'],
  ['cutInsideChunk', cutInsideChunk, CUT, cut, 'ECONNRESET'],
]

describe('streams', () => {
  test.each(STREAMS)(
    '%s is what its name says on the wire',
    async (_name, script, expected, wire) => {
      upstream.plan(script())
      const outcome = await post().outcome()
      expect(outcome).toMatchObject(wire)
      expect(heard(outcome.body)).toEqual({ ...CUT, ...expected })
      expect(outcome.headers['content-type']).toStartWith('text/event-stream')
    },
  )

  test.each(STREAMS)('%s read with fetch', async (_name, script, expected, _wire, end) => {
    upstream.plan(script())
    const body = await fetched()
      .then(response => response.text())
      .catch(error => error.code)
    if (end === 'whole') expect(heard(body)).toEqual({ ...CUT, ...expected })
    else expect(body).toBe(end)
  })

  test('resetMidStream resets when the gate opens, after its text was read', async () => {
    upstream.plan(resetMidStream('cut'))
    const call = post()
    await call.sees('"lo"')
    upstream.open('cut')
    const outcome = await call.outcome()
    expect(outcome).toMatchObject({ status: 200, complete: false, ended: 'reset' })
    expect(heard(outcome.body)).toEqual(CUT)
  })

  test('resetMidStream read with fetch is a reset after the text', async () => {
    upstream.plan(resetMidStream('cut'))
    const reader = (await fetched()).body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (!text.includes('"lo"')) text += (await reader?.read())?.value
    upstream.open('cut')
    expect(await reader?.read().catch(error => error.code)).toBe('ECONNRESET')
  })

  test('splitUtf8 stops in the middle of a character until the gate opens', async () => {
    upstream.plan(splitUtf8('rest'))
    const call = post()
    await upstream.reached('rest')
    await call.sees('"lo"')
    await call.sees(Buffer.from('🌍').subarray(0, 2).toString())
    expect(call.text).not.toContain('🌍')
    upstream.open('rest')
    expect(heard((await call.outcome()).body).text).toBe('Hello 🌍')
  })

  test('crlfSse splits a CR from its LF until the gate opens', async () => {
    upstream.plan(crlfSse('rest'))
    const call = post()
    await upstream.reached('rest')
    await call.sees('"finish_reason":null}]}\r\r\n')
    upstream.open('rest')
    expect((await call.outcome()).body.replaceAll('\r\n', '')).not.toMatch(/[\r\n]/)
  })

  test('bomSse starts with a byte order mark', async () => {
    upstream.plan(bomSse())
    expect((await post().outcome()).body).toStartWith('\uFEFFdata: ')
  })

  test('garbageSse has NULs, comments, broken JSON and unknown events between deltas', async () => {
    upstream.plan(garbageSse())
    const { body } = await post().outcome()
    for (const garbage of [
      '\0\0\0',
      ': a comment',
      '{not json',
      '[1,2,3]',
      'event: surprise',
      'retry: 5',
      'id: 7',
    ]) {
      expect(body).toContain(garbage)
    }
  })

  test('hugeLine adds one line of exactly this many bytes', async () => {
    upstream.plan(hugeLine(1_000_000))
    const { body, complete } = await post().outcome()
    const line = body.split('\n').at(-1) ?? ''
    expect({ complete, length: line.length, start: line.slice(0, 8) }).toEqual({
      complete: true,
      length: 1_000_006,
      start: 'data: xx',
    })
  })

  test('slowDrip has not written its stream when the first event begins to arrive', async () => {
    upstream.plan(slowDrip(1))
    const call = post()
    await call.sees('\r\nd')
    const early = upstream.hits[0]?.sent ?? 0
    await call.outcome()
    expect(early).toBeLessThan((upstream.hits[0]?.sent ?? 0) / 2)
  })

  test('the builders make the stream that they promise', async () => {
    upstream.plan([
      sseHead({ 'x-request-id': 'r1' }),
      delta({ role: 'assistant' }),
      finish('length', { total_tokens: 3 }),
      done(),
      chunkedEnd(),
    ])
    const { headers, body } = await post().outcome()
    expect(headers['x-request-id']).toBe('r1')
    expect(body).toContain('"delta":{"role":"assistant"}')
    expect(body).toContain('"finish_reason":"length"}],"usage":{"total_tokens":3}')
    expect(body).toEndWith('data: [DONE]\n\n')
  })

  test('usageChunk sends its argument as usage, without choices', async () => {
    upstream.plan([sseHead(), usageChunk({ prompt_tokens: '-7' }), chunkedEnd()])
    expect((await post().outcome()).body).toContain('"choices":[],"usage":{"prompt_tokens":"-7"}')
  })
})

describe('whole answers', () => {
  test('completion is a chat.completion with usage', async () => {
    upstream.plan(completion('Hi', { model: 'other' }))
    expect(await (await fetched()).json()).toMatchObject({
      object: 'chat.completion',
      model: 'other',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    })
  })

  test('json sends a status, headers and a true length', async () => {
    upstream.plan(json({ text: 'né' }, { status: 201, headers: { 'x-a': 'b' } }))
    expect(await post().outcome()).toEqual({
      status: 201,
      headers: {
        connection: 'close',
        'content-type': 'application/json',
        'content-length': '14',
        'x-a': 'b',
      },
      body: '{"text":"né"}',
      complete: true,
      ended: 'clean',
    })
  })

  test('status is an error in OpenAI’s form, with custom headers', async () => {
    upstream.plan(status(429, 'Slow down', { 'retry-after': '2' }))
    const { status: code, headers, body } = await post().outcome()
    expect({ code, retry: headers['retry-after'] }).toEqual({ code: 429, retry: '2' })
    expect(JSON.parse(body)).toEqual({
      error: { message: 'Slow down', type: 'server_error', param: null, code: 429 },
    })
  })

  test('status sends an object as the whole body', async () => {
    upstream.plan(status(400, { detail: 'no' }))
    expect((await post().outcome()).body).toBe('{"detail":"no"}')
  })

  test('errorInside200 has an error in the body of a 200', async () => {
    upstream.plan(errorInside200())
    const { status: code, body } = await post().outcome()
    expect({ code, error: JSON.parse(body).error.code }).toEqual({ code: 200, error: 529 })
  })

  test('htmlError is a page, with any status', async () => {
    upstream.plan(htmlError(), htmlError(200))
    const answers = [await fetched(), await fetched()]
    expect(answers.map(answer => answer.status)).toEqual([502, 200])
    expect(answers.map(answer => answer.headers.get('content-type'))).toEqual(
      Array(2).fill('text/html; charset=utf-8'),
    )
  })

  test('shortContentLength closes before the length it promised', async () => {
    upstream.plan(shortContentLength())
    expect(await post().outcome()).toMatchObject({ status: 200, complete: false, ended: 'clean' })
    const response = await fetched()
    expect(await response.text().catch(error => error.code)).toBe('ECONNRESET')
  })

  test('extraBytesAfterBody are on the wire, and fetch ignores them', async () => {
    upstream.plan(extraBytesAfterBody(), extraBytesAfterBody(), completion('second'))
    const call = post()
    await call.sees('injected')
    expect((await call.outcome()).body).not.toContain('injected')
    expect(await (await fetched()).text()).toContain('Hello')
    expect(await (await fetched()).text()).toContain('second')
  })
})

describe('no answer', () => {
  test('refusedPort refuses', async () => {
    const url = `http://127.0.0.1:${await refusedPort()}`
    expect(await fetch(url).catch(error => error.code)).toBe('ECONNREFUSED')
    expect(await request(url).outcome()).toMatchObject({
      status: 0,
      complete: false,
      ended: 'reset',
    })
  })

  test('silence reads the request and sends nothing until the client leaves', async () => {
    upstream.plan(silence())
    const call = post()
    await upstream.reached('never')
    expect(upstream.hits).toHaveLength(1)
    call.hangUp('fin')
    await upstream.hits[0]?.clientLeft
    expect(upstream.hits[0]?.sent).toBe(0)
  })

  test('silenceMidStream sends "Hello" and nothing more', async () => {
    upstream.plan(silenceMidStream())
    const call = post()
    await call.sees('"lo"')
    await upstream.reached('never')
    call.hangUp('rst')
    expect(heard((await call.outcome()).body)).toEqual(CUT)
  })

  test('resetAtOnce resets without a byte', async () => {
    upstream.plan(resetAtOnce())
    expect(await post().outcome()).toMatchObject({ status: 0, complete: false, ended: 'reset' })
    expect(await fetched().catch(error => error.code)).toBe('ECONNRESET')
    expect(upstream.hits).toHaveLength(2)
  })

  test('headerDrip keeps sending a head that never ends', async () => {
    upstream.plan(headerDrip(0))
    const call = post()
    await call.sees(`x-drip: ${'a'.repeat(50)}`)
    call.hangUp('rst')
    expect(await call.outcome()).toMatchObject({ status: 0, complete: false, ended: 'reset' })
  })

  test('headerDrip keeps fetch waiting until it is aborted', async () => {
    upstream.plan(headerDrip(0))
    const abort = new AbortController()
    const response = fetched({ signal: abort.signal }).catch(error => error.name)
    const hit = await upstream.hit()
    abort.abort()
    expect(await response).toBe('AbortError')
    await hit.clientLeft
  })
})

describe('plans', () => {
  const said = async () => JSON.parse((await post().outcome()).body).choices[0].message.content

  test('scripts are played in turn and the last one repeats', async () => {
    upstream.plan(completion('1'), completion('2'))
    expect([await said(), await said(), await said()]).toEqual(['1', '2', '2'])
    upstream.plan(completion('3'))
    expect(await said()).toBe('3')
  })

  test('answer chooses by the request', async () => {
    upstream.answer(hit => completion(String((hit.json as { model: string }).model)))
    const call = post({ model: 'asked-for' })
    expect(JSON.parse((await call.outcome()).body).choices[0].message.content).toBe('asked-for')
  })

  test('without a plan the answer is a 501', async () => {
    expect((await post().outcome()).status).toBe(501)
  })

  test('a gate opened beforehand is passed at once', async () => {
    upstream.open('go')
    upstream.plan([{ wait: 'go' }, completion()])
    expect((await post().outcome()).status).toBe(200)
  })

  test('one gate holds several requests and lets them all go', async () => {
    upstream.plan([sseHead(), delta('Hel'), { wait: 'go' }, delta('lo'), ending()])
    const calls = [post(), post(), post()]
    for (const call of calls) await call.sees('Hel')
    expect(calls.filter(call => call.text.includes('"lo"'))).toEqual([])
    upstream.open('go')
    for (const call of calls) expect(heard((await call.outcome()).body)).toEqual(GOOD)
  })
})

describe('the log', () => {
  test('a hit has the request as received', async () => {
    upstream.plan(completion())
    const started = performance.now()
    const headers = { 'X-Title': 'one', 'x-two': 'a, b' }
    await request(`${upstream.url}/chat/completions?beta=1`, {
      json: { model: 'é' },
      headers,
    }).outcome()
    const [hit] = upstream.hits
    expect(hit).toMatchObject({
      method: 'POST',
      path: '/v1/chat/completions?beta=1',
      body: '{"model":"é"}',
      json: { model: 'é' },
      connection: 1,
    })
    expect(hit?.headers).toMatchObject({
      'x-title': 'one',
      'x-two': 'a, b',
      'content-length': '14',
      'content-type': 'application/json',
    })
    expect(hit?.at).toBeGreaterThanOrEqual(started)
  })

  test('a chunked body is assembled, whatever its pieces', async () => {
    upstream.plan(completion())
    const call = request(upstream.url, {
      raw: 'POST /v1/x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4;note=1\r\n{"a"\r',
    })
    call.send('\n3\r\n:1}')
    call.send('\r\n0\r\ntrailer: 1\r\n\r\n')
    expect((await call.outcome()).status).toBe(200)
    expect(upstream.hits[0]).toMatchObject({ path: '/v1/x', json: { a: 1 } })
  })

  test('a body that fetch streams is assembled', async () => {
    upstream.plan(completion())
    const parts = new ReadableStream({
      start(controller) {
        for (const part of ['{"a"', ':1}']) controller.enqueue(new TextEncoder().encode(part))
        controller.close()
      },
    })
    await fetched({ body: parts })
    expect(upstream.hits[0]).toMatchObject({
      json: { a: 1 },
      headers: { 'transfer-encoding': 'chunked' },
    })
  })

  test('a large binary body is kept byte for byte', async () => {
    upstream.plan(completion())
    const bytes = new Uint8Array(3_000_000).map((_, index) => index % 251)
    await fetched({ body: bytes })
    expect(Bun.hash(upstream.hits[0]?.bytes ?? '')).toBe(Bun.hash(bytes))
    expect(upstream.hits[0]?.json).toBeUndefined()
  })

  test('an incomplete request is not a hit', async () => {
    const call = request(upstream.url, { raw: 'POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf' })
    call.hangUp('fin')
    expect(await call.outcome()).toMatchObject({ status: 0, ended: 'clean' })
    expect(upstream.hits).toEqual([])
  })

  test('a hit can be waited for', async () => {
    upstream.plan(completion())
    const second = upstream.hit(2)
    await post({ n: 1 }).outcome()
    await post({ n: 2 }).outcome()
    expect((await second).json).toEqual({ n: 2 })
    expect((await upstream.hit()).json).toEqual({ n: 1 })
  })

  test.each(['fin', 'rst'] as const)(
    'a client that leaves by %s is noticed and ends the script',
    async how => {
      upstream.plan(silenceMidStream())
      const call = post()
      await call.sees('"lo"')
      const before = performance.now()
      call.hangUp(how)
      const [hit] = upstream.hits
      expect(await hit?.clientLeft).toBeGreaterThanOrEqual(before)
      expect(hit?.leftAt).toBe((await hit?.clientLeft) ?? 0)
      await upstream.emptied()
      expect(upstream.live).toBe(0)
    },
  )

  test('an aborted fetch is noticed', async () => {
    upstream.plan(silence())
    const abort = new AbortController()
    const response = fetched({ signal: abort.signal }).catch(error => error.name)
    const hit = await upstream.hit()
    abort.abort()
    expect(await response).toBe('AbortError')
    expect(await hit.clientLeft).toBeGreaterThan(hit.at)
  })

  test('a client that leaves after the end of the script has not left early', async () => {
    upstream.plan(completion('Hello', {}, { headers: { connection: 'keep-alive' } }))
    const call = post()
    await call.outcome()
    expect(upstream.live).toBe(1)
    call.hangUp('rst')
    await upstream.emptied()
    expect(upstream.hits[0]?.leftAt).toBeNull()
  })
})

describe('connections', () => {
  const keptAlive = (text: string) =>
    completion(text, {}, { headers: { connection: 'keep-alive' } })

  test('an answer with keep-alive leaves the connection open for the next request', async () => {
    upstream.plan(keptAlive('1'), keptAlive('2'), completion('3'), completion('4'))
    for (let count = 0; count < 4; count++) await (await fetched()).text()
    expect(upstream.hits.map(hit => hit.connection)).toEqual([1, 1, 1, 2])
  })

  test('pipelined requests are answered in order', async () => {
    upstream.plan(keptAlive('one'), completion('two'))
    const call = request(upstream.url, { raw: 'GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n' })
    await call.sees('two')
    expect(upstream.hits.map(hit => hit.path)).toEqual(['/1', '/2'])
    expect(call.text.indexOf('one')).toBeLessThan(call.text.indexOf('two'))
  })

  test('a flood waits for a client that does not read, and ends when it leaves', async () => {
    upstream.plan([head(200), { flood: Number.POSITIVE_INFINITY }])
    const call = post()
    await call.sees('xxxx')
    call.stopReading()
    const hit = await upstream.hit()
    await settled(() => hit.sent)
    expect(hit.sent).toBeLessThan(64 * 1024 * 1024)
    call.hangUp('rst')
    await hit.clientLeft
  })

  test('a client that resumes reading gets every unread byte', async () => {
    const size = 32 * 1024 * 1024
    upstream.plan([head(200, { 'content-length': String(size) }), { flood: size }])
    const call = post()
    await call.sees('xxxx')
    call.stopReading()
    await settled(() => upstream.hits[0]?.sent ?? 0)
    expect(upstream.hits[0]?.sent).toBeLessThan(size)
    call.readOn()
    const { body, complete } = await call.outcome()
    expect({ complete, length: body.length }).toEqual({ complete: true, length: size })
  })

  test('close drops open connections and stops listening', async () => {
    upstream.plan(silence())
    const call = post()
    await upstream.hit()
    const { url } = upstream
    await upstream.close()
    expect((await call.outcome()).complete).toBe(false)
    expect(upstream.live).toBe(0)
    expect(upstream.hits[0]?.leftAt).toBeNull()
    expect(await fetch(url).catch(error => error.code)).toBe('ECONNREFUSED')
  })
})

/** Waits until a growing number has not grown for a while. */
async function settled(read: () => number): Promise<void> {
  for (let last = -1; last !== read(); await Bun.sleep(30)) last = read()
}

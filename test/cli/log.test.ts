import { describe, expect, test } from 'bun:test'
import { closeSync, mkdtempSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { createLog, type Level, openLineWriter } from '../../src/cli/log.ts'
import { buildRoutesConfig, sendChat } from '../support/chat.ts'
import { runGateway, startServer } from '../support/server.ts'
import { completion, startUpstream } from '../support/upstream.ts'

const TIME = '2026-03-04T05:06:07.000Z'

function write(format: 'text' | 'json', facts: object, level: Level = 'info'): string {
  const lines: string[] = []
  const now = () => new Date(TIME)
  const log = createLog({ format, level, now, write: text => lines.push(text) })
  log('info', 'call', { ...facts })
  return lines.join('')
}

describe('a line', () => {
  test('begins with its time and level', () => {
    const facts = { key: 'gw-v1-ab…yz', status: 200, none: undefined }
    expect(write('text', facts)).toBe(`${TIME} info call key=gw-v1-ab…yz status=200\n`)
    expect(JSON.parse(write('json', facts))).toEqual({
      ...{ time: TIME, level: 'info', event: 'call' },
      ...{ key: 'gw-v1-ab…yz', status: 200 },
    })
  })

  test('X-42 keeps a text of others in its place', () => {
    expect(write('text', { reason: 'a "b" status=1\n\u001b[2J' })).toBe(
      `${TIME} info call reason="a \\"b\\" status=1\\n\\u001b[2J"\n`,
    )
    expect(write('text', { reason: 'a\u202eb' })).toBe(`${TIME} info call reason=a\uFFFDb\n`)
  })

  test('below the level is not written', () => {
    expect(write('text', {}, 'warn')).toBe('')
    expect(write('text', {}, 'debug')).not.toBe('')
  })
})

describe('a reader that takes nothing', () => {
  test('O-06 costs a bounded number of lines, and is told how many', async () => {
    let resume: () => void = () => undefined
    const taken: string[] = []
    const sink = {
      write: (text: string) => void taken.push(text),
      flush: () => (taken.length === 1 ? new Promise<void>(done => (resume = done)) : 0),
    }
    const drained = Promise.withResolvers<number>()
    const writeLine = openLineWriter(sink, drained.resolve)
    for (let i = 0; i < 10_001; i++) writeLine(`${'x'.repeat(99)}\n`, 'error')
    expect(taken).toHaveLength(1)
    resume()
    const dropped = await drained.promise
    await Promise.resolve()
    expect(taken.join('')).toHaveLength((10_001 - dropped) * 100)
    expect(taken.join('').length).toBeLessThan(300_000)
  })

  test.each(['write', 'flush'])('and is gone stops nothing: %s', method => {
    const sink = { write: () => 0, flush: () => 0 }
    const fail = () => {
      throw new Error('EPIPE')
    }
    const writeLine = openLineWriter({ ...sink, [method]: fail }, () => undefined)
    expect(() => writeLine('a line\n', 'error')).not.toThrow()
  })

  test('does not stop the process', async () => {
    const module = `${import.meta.dir}/../../src/cli/log.ts`
    const script = `
      const { openLineWriter } = await import(${JSON.stringify(module)})
      const write = openLineWriter(Bun.stderr.writer(), () => undefined)
      for (let i = 0; i < 5_000; i++) write('x'.repeat(199) + '\\n', i % 2 ? 'error' : 'info')
      await Bun.sleep(0)
      console.log('alive')
      process.exit(0)`
    const pipe = `${mkdtempSync('/tmp/gateway-log-')}/pipe`
    expect((await Bun.$`mkfifo ${pipe}`).exitCode).toBe(0)
    // Open for reading too, so that it has a reader: one that never reads.
    const stalled = openSync(pipe, 'r+')
    const run = Bun.spawn([process.execPath, '-e', script], { stderr: stalled })
    expect(await new Response(run.stdout).text()).toBe('alive\n')
    closeSync(stalled)
  })
})

describe('serve', () => {
  async function serve(...args: string[]) {
    const upstream = await startUpstream()
    upstream.answer(() => completion('Hello'))
    const config = buildRoutesConfig({ 'acme/small': { local: upstream.url } })
    await using server = await startServer({ config, args })
    const outcome = await sendChat(server, {}, { headers: { 'x-request-id': 'mine-1' } }).outcome()
    const { stderr } = await server.stop()
    await upstream.close()
    const lines = stderr.split('\n').filter(line => line !== '')
    return { lines, key: server.inference_key, id: outcome.headers['x-generation-id'] }
  }

  test('writes one line for each call', async () => {
    const { lines, key, id } = await serve()
    const events = lines.map(line => JSON.parse(line))
    for (const line of events)
      expect(line).toMatchObject({ time: expect.stringMatching(/Z$/), level: 'info' })
    expect(events.filter(({ event }) => event === 'call')).toMatchObject([
      {
        ...{ request_id: 'mine-1', generation: id, model: 'acme/small', provider: 'local' },
        ...{ status: 200, input_tokens: 10, output_tokens: 5, attempts: 1 },
        key: expect.stringContaining('...'),
        cost: expect.any(Number),
        ms: expect.any(Number),
      },
    ])
    expect(lines.join('\n')).not.toContain(key)
  })

  test('writes none without an access log, and nothing below the level', async () => {
    const without = await serve('--no-access-log')
    expect(without.lines.filter(line => line.includes('"call"'))).toEqual([])
    expect(without.lines.length).toBeGreaterThan(0)
    expect((await serve('--log-level', 'error')).lines).toEqual([])
  })

  test('refuses an unknown level', async () => {
    const { code, stderr } = await runGateway(['serve', '--log-level', 'loud'])
    expect([code, stderr]).toEqual([2, expect.stringContaining('debug, info, warn, error')])
  })
})

test('X-35 O-13 bugs that nobody catches are logged without data, and end nothing', async () => {
  const script = join(import.meta.dir, '../support/uncaught.ts')
  const child = Bun.spawn([process.execPath, script], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [code, printed] = [await child.exited, await new Response(child.stdout).text()]
  const [lines, end] = [printed.split('\n').slice(0, 3), printed.split('\n')[3]]
  expect([code, end]).toEqual([0, 'still alive'])
  for (const line of lines) expect(JSON.parse(line)).toMatchObject({ level: 'error', event: 'bug' })
  expect(printed).toContain('uncaught.ts')
  expect(printed).not.toContain('canary')
})

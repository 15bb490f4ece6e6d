import { afterEach, describe, expect, test } from 'bun:test'
import { readFileSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { reconfigure } from '../../../../src/app/reconfigure.ts'
import { Cancellation } from '../../../../src/base/cancellation.ts'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { EventMap } from '../../../../src/base/events.ts'
import type { Json } from '../../../../src/base/json.ts'
import { parseConfig } from '../../../../src/config.ts'
import { readMcpOptions } from '../../../../src/extensions/tools/mcp/options.ts'
import { type McpServer, resolveServer } from '../../../../src/extensions/tools/mcp/server.ts'
import { runSession } from '../../../../src/extensions/tools/mcp/session.ts'
import { runLimited, toFailedResult } from '../../../../src/extensions/tools/use-limit.ts'
import { TestClock, testGateway } from '../../../support/gateway.ts'

/*
 * MCP servers that are programs: each test has a gateway of its own, and real processes.
 */

const PROGRAM = join(import.meta.dir, '../../../support/mcp-program.ts')
const SECRET = 'token-of-the-operator-0123456789'
const settings = (fields: Json = {}): Json => ({
  command: [process.execPath, PROGRAM],
  env: { API_TOKEN: SECRET, ROOT: '/srv/public' },
  ...fields,
})

let gateway: Gateway
let clock: TestClock
let ends: EventMap['mcp_program.ended'][]

async function open(fields: Json = {}): Promise<void> {
  clock = new TestClock()
  gateway = await testGateway({ clock, config: { mcp_servers: { own: settings(fields) } } })
  ends = []
  gateway.events.on('mcp_program.ended', end => ends.push(end))
}
afterEach(() => gateway.close())

const configure = (servers: Json, mcp: Json = {}) =>
  reconfigure(gateway, parseConfig(JSON.stringify({ mcp, mcp_servers: servers }), {}))

const findServer = (): McpServer => {
  const server = resolveServer(gateway.config, readMcpOptions({ server_label: 'own' }, 'server'))
  if ('obstacle' in server) throw new Error(server.obstacle)
  return server
}

const textOf = ({ content: [part] }: CallToolResult): string =>
  part?.type === 'text' ? part.text : ''

/** Uses a tool. A failure is its words. */
const use = (name: string, cancellation = new Cancellation()): Promise<string> => {
  const server = findServer()
  return runLimited(cancellation, server.timeoutMilliseconds, limit =>
    runSession(gateway, server, limit, async session => textOf(await session.callTool(name, {}))),
  ).catch(thrown => toFailedResult(thrown).text)
}

const awaitEnd = () => {
  const ended = Promise.withResolvers<EventMap['mcp_program.ended']>()
  gateway.events.on('mcp_program.ended', ended.resolve)
  return ended.promise
}

// One that nobody has waited for yet has ended all the same.
const isAlive = (pid: string): boolean => {
  try {
    process.kill(Number(pid), 0)
    return process.platform !== 'linux' || !/\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

describe('a server that is a program', () => {
  test('starts with its first use, and is one process for all', async () => {
    await open()
    expect(gateway.egress.programs.size).toBe(0)
    const pids = await Promise.all([use('pid'), use('pid')])
    expect(new Set([...pids, await use('pid')]).size).toBe(1)
    expect(gateway.egress.programs.size).toBe(1)
  })

  test('has nothing of the gateway’s environment but what finds programs', async () => {
    process.env.GATEWAY_SECRET_OF_TEST = 'never'
    await open({ cwd: tmpdir() })
    const environment = JSON.parse(await use('environment')) as Record<string, string>
    delete process.env.GATEWAY_SECRET_OF_TEST
    const names = ['API_TOKEN', 'HOME', 'LANG', 'PATH', 'ROOT', 'TMPDIR', 'TZ']
    expect(Object.keys(environment).filter(name => !names.includes(name))).toEqual([])
    expect(environment).toMatchObject({ API_TOKEN: SECRET, PATH: process.env.PATH })
    expect(realpathSync(await use('directory'))).toBe(realpathSync(tmpdir()))
  })

  test('ends with the gateway, and with all that it has started', async () => {
    await open()
    const pids = [await use('pid'), await use('fork')]
    expect(pids.map(isAlive)).toEqual([true, true])
    await gateway.close()
    while (pids.some(isAlive)) await Bun.sleep(1)
    expect(ends).toEqual([])
  })

  test('ends when the config has it no more, and starts anew when it has another', async () => {
    await open()
    const first = await use('pid')
    await configure({ own: settings({ usd_per_call: 1 }) })
    expect(await use('pid')).toBe(first)
    await configure({ own: settings({ env: {} }) })
    const second = await use('pid')
    expect(second).not.toBe(first)
    const [program] = gateway.egress.programs.values()
    await configure({})
    expect(gateway.egress.programs.size).toBe(0)
    await program?.end()
    expect(ends).toEqual([])
  })

  test('that ends is started again, after a pause that grows, and is told of without secrets', async () => {
    await open()
    expect(await use('crash')).toBe('The MCP server own ended before it answered')
    expect(ends).toEqual([
      {
        ...{ label: 'own', exit_code: 3, reason: 'ended before it answered' },
        stderr: expect.stringMatching(/^broken: \[secret\]/),
      },
    ])
    // Once may be chance.
    await use('crash')
    expect(await use('pid')).toBe(
      'The MCP server own ended before it answered, and is started again in 1 seconds',
    )
    clock.pass(1_000)
    await use('crash')
    expect(await use('pid')).toContain('in 2 seconds')
    clock.pass(2_000)
    expect(await use('pid')).toMatch(/^\d+$/)
    clock.pass(60_001)
    await use('crash')
    expect(await use('pid')).toMatch(/^\d+$/)
  })

  test('that cannot be started says so', async () => {
    await open({ command: ['/no/such/program'] })
    expect(await use('pid')).toBe('The MCP server own could not be started')
    await gateway.close()
    await open({ command: ['sh', '-c', 'exit 1'] })
    expect(await use('pid')).toBe('The MCP server own could not be started')
  })

  test('that hangs is replaced once it answers nothing at all', async () => {
    await open()
    const first = await use('pid')
    await configure({ own: settings({ timeout_seconds: 0.01 }) })
    const ended = awaitEnd()
    expect(await use('hang')).toContain('no answer in time')
    expect(await ended).toMatchObject({ reason: 'gave no answer' })
    await configure({ own: settings() })
    expect(await use('pid')).not.toBe(first)
  })

  test('goes on where the client of one use leaves', async () => {
    await open()
    const first = await use('pid')
    const cancellation = new Cancellation()
    const left = use('ponder', cancellation)
    cancellation.cancel(new GatewayError('cancelled', 'left'))
    expect(await left).toContain('left')
    expect(await use('pid')).toBe(first)
    expect(ends).toEqual([])
  })

  test('that sends more than an answer may have is ended', async () => {
    await open()
    await configure({ own: settings() }, { max_answer_mib: 1 })
    expect(await use('flood')).toBe('The MCP server own sent too much')
    expect(await use('pid')).toMatch(/^\d+$/)
  })

  test('may print what is no message', async () => {
    await open()
    expect(await use('noise')).toBe('after noise')
  })

  test('may ask nothing of the client', async () => {
    await open()
    expect(await use('ask')).toContain('was told {"code":-32601')
  })
})

test('no call can name a program', () => {
  const command = ['sh', '-c', 'touch /tmp/x']
  for (const fields of [{ command }, { server_url: 'https://a.example', command }])
    expect(() => readMcpOptions({ server_label: 'x', ...fields }, 'tools.0')).toThrow('command')
  const options = readMcpOptions({ server_label: 'x', server_url: 'sh -c id' }, 'tools.0')
  expect(resolveServer(gateway.config, options)).toMatchObject({ program: null, url: 'sh -c id' })
})

import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeListenError, describeSystemError } from '../../src/cli/system-errors.ts'
import { hasMounts, NAMESPACE } from '../support/mounts.ts'
import { PROGRAM, runGateway, startServer } from '../support/server.ts'

const fail = (code: string, more: object = {}) => Object.assign(new Error('raw'), { code, ...more })

test.each([
  [fail('ENOSPC', { path: '/data/x' }), '/data/x: the disk is full: make room on it (ENOSPC)'],
  [fail('SQLITE_FULL'), 'the disk is full: make room on it (SQLITE_FULL)'],
  [
    fail('SQLITE_IOERR_WRITE'),
    'the disk cannot be read or written: check it, then run gateway doctor (SQLITE_IOERR_WRITE)',
  ],
  [fail('EOTHER'), undefined],
  [new Error('raw'), undefined],
])('a failure of the system is described in words: %#', (error, words) => {
  expect(describeSystemError(error)).toBe(words)
})

test('an address that cannot be used is named with what to change', () => {
  const place = { host: '::1', port: 80, flag: '--port' }
  expect(describeListenError(fail('EACCES'), place)).toBe(
    '[::1]:80: this user may not listen on that port; choose one from 1024 (--port)',
  )
  expect(describeListenError(fail('EADDRNOTAVAIL'), place)).toBe(
    '[::1]:80: this machine does not have the address (EADDRNOTAVAIL)',
  )
})

test.each(['nohost.invalid', '999.1.1.1', '::zz'])(
  'a host that is none is named: %s',
  async host => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    const args = ['serve', '--host', host, '--port', '4711', '--data', data]
    const { code, stderr } = await runGateway(args)
    rmSync(data, { recursive: true })
    expect([code, stderr]).toEqual([
      1,
      `gateway: ${host.includes(':') ? `[${host}]` : host}:4711: the host cannot be resolved, or ` +
        'not be listened on: name an address of this machine\n',
    ])
  },
)

test('the code of the system is believed where a host was resolved', () => {
  const place = { host: 'localhost', port: 80, flag: '--port' }
  expect(describeListenError(fail('EADDRNOTAVAIL'), place)).toContain('(EADDRNOTAVAIL)')
  expect(describeListenError(fail('ENOTTY'), { ...place, host: '::1' })).toBeUndefined()
  expect(describeListenError(fail('ENOTTY'), { ...place, host: '10.0.0.1' })).toBeUndefined()
  expect(describeListenError(fail('ENOTTY'), place)).toContain('the host cannot be resolved')
})

test('a used port and a used data directory are named with the process that holds them', async () => {
  await using server = await startServer()
  const { port } = new URL(server.url)
  const other = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const taken = await runGateway(['serve', '--port', port, '--data', other])
  rmSync(other, { recursive: true })
  expect([taken.code, taken.stderr]).toEqual([
    1,
    expect.stringMatching(
      new RegExp(
        `127.0.0.1:${port} is in use by \\S+ \\(process ${server.process.pid}\\): .*--port`,
      ),
    ),
  ])
  const locked = await runGateway(['serve', '--port', '0', '--data', server.data])
  expect([locked.code, locked.stderr]).toEqual([
    4,
    expect.stringMatching(new RegExp(`serves from .* \\(process ${server.process.pid}\\)\n$`)),
  ])
})

test('a data directory that cannot be made is named', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  writeFileSync(join(directory, 'file'), '')
  const { code, stderr } = await runGateway(['init', '--data', join(directory, 'file', 'data')])
  rmSync(directory, { recursive: true })
  expect([code, stderr]).toEqual([
    1,
    `gateway: ${join(directory, 'file', 'data')}: a part of the path is no directory (ENOTDIR)\n`,
  ])
})

test.skipIf(!hasMounts)(
  'S-09 a data directory on a read-only file system is named, with what to do',
  async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    expect((await runGateway(['init', '--data', data])).code).toBe(0)
    const mounted = `mount --bind ${data} ${data} && mount -o remount,ro,bind ${data} && exec "$@"`
    const program = [...NAMESPACE, 'sh', '-c', mounted, 'sh', ...PROGRAM]
    for (const [file, ...args] of [
      ['gateway.db', 'keys', 'create', '--name', 'x'],
      ['serve.lock', 'serve', '--port', '0'],
      ['gateway.db', 'backup', join(tmpdir(), 'read-only.backup')],
    ]) {
      const { code, stderr } = await runGateway([...args, '--data', data], { program })
      expect([code, stderr]).toEqual([
        1,
        `gateway: ${join(data, file ?? '')}: the file system is read-only: mount it writable, ` +
          'or name another directory (--data) (EROFS)\n',
      ])
    }
    rmSync(data, { recursive: true })
  },
)

describe('a data directory that cannot be used', () => {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  afterAll(() => rmSync(directory, { recursive: true }))
  const run = async (args: string[], data: string) => {
    const { code, stdout, stderr } = await runGateway([...args, '--data', data])
    return [code, stdout, stderr]
  }

  // As one that this user may not enter. The tests may run as one who may enter any.
  test('is not said to be empty, or without a server', async () => {
    const circle = join(directory, 'circle')
    symlinkSync(circle, circle)
    const named = [1, '', `gateway: ${circle}/gateway.db: its links lead in a circle (ELOOP)\n`]
    symlinkSync(join(circle, 'data'), join(directory, 'beyond'))
    for (const line of [['status'], ['serve', '--port', '0']])
      expect([line, ...(await run(line, circle))]).toEqual([line, ...named])
  })

  test('is named where it is a file', async () => {
    const file = join(directory, 'file')
    writeFileSync(file, '')
    for (const line of [['init'], ['serve', '--port', '0']])
      expect(await run(line, file)).toEqual([
        1,
        '',
        `gateway: ${file}: expected a directory, found a file\n`,
      ])
  })

  test('is named with the database that is none, and no other server is blamed', async () => {
    const data = join(directory, 'damaged')
    mkdirSync(data, { mode: 0o700 })
    writeFileSync(
      join(data, 'gateway.db'),
      'no database, but long enough to be read as one. '.repeat(99),
    )
    expect(await run(['keys', 'list'], data)).toEqual([
      1,
      '',
      `gateway: ${data}/gateway.db: the file is no database of the gateway (SQLITE_NOTADB)\n`,
    ])
  })

  test('is not made for a wrong flag', async () => {
    const data = join(directory, 'unmade')
    for (const flags of [
      ['--port', '99999'],
      ['--port', '1.5'],
      ['--drain', '-1'],
      ['--drain', '86401'],
      ['--drain', 'Infinity'],
    ]) {
      const [code, stdout, stderr] = await run(['serve', ...flags], data)
      expect([flags, code, stdout]).toEqual([flags, 2, ''])
      expect(stderr).toMatch(/^gateway: .*(port|--drain)[^\n]* expected [^\n]+\n$/)
    }
    expect(existsSync(data)).toBe(false)
  })
})

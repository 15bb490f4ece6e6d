import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeListenError, describeSystemError } from '../../src/cli/system-errors.ts'
import { runGateway, startServer } from '../support/server.ts'

const fail = (code: string, more: object = {}) => Object.assign(new Error('raw'), { code, ...more })

test.each([
  [fail('ENOSPC', { path: '/data/x' }), '/data/x: the disk is full (ENOSPC)'],
  [fail('SQLITE_FULL'), 'the disk is full (SQLITE_FULL)'],
  [fail('SQLITE_IOERR_WRITE'), 'the disk cannot be read or written (SQLITE_IOERR_WRITE)'],
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

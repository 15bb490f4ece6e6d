import { afterAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { openDataDirectory } from '../../src/store/data-directory.ts'
import { openHeadFile } from '../../src/store/ledger-head.ts'
import { loadDataSecret } from '../../src/store/secret.ts'
import { lockData } from '../../src/store/sqlite/lock.ts'
import { TEST_MAC } from '../support/ledger.ts'
import { openJournal } from '../support/log.ts'
import { runGateway } from '../support/server.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const newDirectory = () => mkdtempSync(join(root, 'd-'))

describe('X-13 a data directory that others may write', () => {
  test('is refused by every command, with what to do', async () => {
    const [data, made] = [newDirectory(), newDirectory()]
    await runGateway(['init', '--data', made])
    chmodSync(data, 0o777)
    chmodSync(made, 0o777)
    const listing = await runGateway(['keys', 'list', '--data', made])
    expect([listing.code, listing.stderr]).toEqual([
      5,
      expect.stringContaining(`chmod go-w ${made}`),
    ])
    for (const command of [
      ['init', '--data', data],
      ['serve', '--port', '0', '--data', data],
    ]) {
      const { code, stderr } = await runGateway(command)
      expect([code, stderr]).toEqual([5, expect.stringContaining(`chmod go-w ${data}`)])
    }
    expect(existsSync(join(data, 'gateway.db'))).toBe(false)
  })

  test('through a group is refused, unless the group is the owner’s own', () => {
    const data = newDirectory()
    chmodSync(data, 0o770)
    openDataDirectory(data)
    if (process.getuid?.() !== 0) return
    chownSync(data, 0, 12_345)
    expect(() => openDataDirectory(data)).toThrow('other users may write here')
  })

  test('is refused for a database in it that they may write', () => {
    const data = newDirectory()
    openDataDirectory(data)
    expect(statSync(join(data, 'gateway.db')).mode & 0o777).toBe(0o600)
    chmodSync(join(data, 'gateway.db'), 0o666)
    expect(() => openDataDirectory(data)).toThrow('gateway.db: other users may write here')
  })
})

test.each(['secret.key', 'secret.key.previous'])(
  '%s that other users may read is refused, and can be mended as the message says',
  name => {
    const data = newDirectory()
    openDataDirectory(data)
    writeFileSync(join(data, name), 'secret', { mode: 0o600 })
    openDataDirectory(data)
    chmodSync(join(data, name), 0o604)
    expect(() => openDataDirectory(data)).toThrow(`chmod 600 ${join(data, name)}`)
    chmodSync(join(data, name), 0o600)
    openDataDirectory(data)
  },
)

describe('a link in the data directory', () => {
  const openEverything = async (data: string) => {
    const gateway = await openGateway({ data })
    await gateway.close()
    lockData(data)()
    loadDataSecret(data)
    openHeadFile(data, TEST_MAC).read()
    openHeadFile(data, TEST_MAC).write({ ledger: { seq: 0, hash: '' }, seals: null })
    openJournal(data).listCalls()
    openJournal(data).clear()
  }

  test.each([
    'gateway.db',
    'gateway.db-wal',
    'gateway.db-shm',
    'serve.lock',
    'secret.key',
    'ledger.head',
    'ledger.head.new',
    'holds.log',
    'log.1',
  ])('%s is refused, and its target is unchanged', async name => {
    const data = newDirectory()
    const target = join(newDirectory(), 'target')
    writeFileSync(target, 'someone else’s')
    symlinkSync(target, join(data, name))
    expect(await openEverything(data).catch(({ message }) => message)).toContain('is a link')
    expect(readFileSync(target, 'utf8')).toBe('someone else’s')
  })
})

test('a garbled lock has nothing to lose: it is locked anew, and by one alone', () => {
  const data = newDirectory()
  writeFileSync(join(data, 'serve.lock'), 'no database, but as long as one. '.repeat(200))
  const unlock = lockData(data)
  expect(() => lockData(data)).toThrow('Another gateway serves')
  unlock()
  lockData(data)()
})

test('a secret that is too short makes no data', async () => {
  const data = join(newDirectory(), 'data')
  const opening = openGateway({ data, secret: 'short', requiresOwnSecret: true })
  await expect(opening).rejects.toThrow('expected at least 32 characters')
  expect(existsSync(data)).toBe(false)
})

test('memory that cannot be had is 503, and no bug', () => {
  const thrown = (() => {
    try {
      return 'x'.repeat(2 ** 31)
    } catch (error) {
      return error
    }
  })()
  expect(GatewayError.from(thrown).status).toBe(503)
  expect(GatewayError.from(new RangeError('Invalid count value')).status).toBe(500)
})

import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadDataSecret } from '../../src/store/secret.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const emptyDirectory = () => mkdtempSync(join(directory, 'd-'))

test('a data directory has one secret, created on first use and readable only by its owner', () => {
  const data = emptyDirectory()
  const secret = loadDataSecret(data)
  expect(secret).toHaveLength(32)
  expect(loadDataSecret(data)).toEqual(secret)
  expect(loadDataSecret(emptyDirectory())).not.toEqual(secret)
  expect(readdirSync(data)).toEqual(['secret.key'])
  expect(statSync(join(data, 'secret.key')).mode & 0o777).toBe(0o600)
})

test('a file of another size is refused by name and left unchanged', () => {
  const data = emptyDirectory()
  writeFileSync(join(data, 'secret.key'), 'short')
  expect(() => loadDataSecret(data)).toThrow('secret.key: expected 32 bytes, found 5')
  expect(readdirSync(data)).toEqual(['secret.key'])
})

test('processes that load the secret at once get the same one', async () => {
  const data = emptyDirectory()
  const module = join(import.meta.dir, '../../src/store/secret.ts')
  const program = `import { loadDataSecret } from ${JSON.stringify(module)}
    process.stdout.write(Buffer.from(loadDataSecret(${JSON.stringify(data)})).toString('hex'))`
  const run = () =>
    new Response(Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe' }).stdout).text()
  const secrets = await Promise.all([run(), run(), run(), run()])
  expect(new Set(secrets).size).toBe(1)
  expect(secrets[0]).toMatch(/^[0-9a-f]{64}$/)
  expect(readdirSync(data)).toEqual(['secret.key'])
})

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { runCommand } from '../support/commands.ts'
import { makeHome } from '../support/containers.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
const data = join(directory, 'data')
const run = (...args: string[]) => runCommand([...args, '--data', data], { cwd: directory })

beforeAll(async () => {
  await run('init')
  const gateway = await openGateway({ data })
  const { workspace_id } = getOperator(gateway)
  await makeHome(gateway, workspace_id, 'sess_report', { 'a.txt': 'one', 'b.txt': 'three' })
  await makeHome(gateway, workspace_id, 'mine', { 'c.txt': 'x' })
  await gateway.close()
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const listBlobs = () =>
  readdirSync(join(data, 'files'), { recursive: true, withFileTypes: true }).filter(entry =>
    entry.isFile(),
  )

test('gateway containers shows one, lists its files and copies one into the workspace', async () => {
  expect((await run('containers', 'get', 'sess_report')).stdout).toMatch(/^files +2$/m)
  expect((await run('containers', 'get', 'none')).code).toBe(3)
  const files = await run('containers', 'files', 'sess_report', '--limit', '1')
  expect(files.stdout).toMatch(/^a\.txt +3 +2026-03-04T05:06:07.000Z +cfile_\S+$/m)
  const next = /--after (\S+)/.exec(files.stderr)?.[1] ?? ''
  const rest = await run('containers', 'files', 'sess_report', '--after', next, '--json')
  const [{ id, path }] = JSON.parse(rest.stdout).data
  expect(path).toBe('b.txt')
  const promote = async (file: string) =>
    JSON.parse((await run('containers', 'promote', 'sess_report', file, '--json')).stdout)
  const copy = await promote('b.txt')
  expect(copy).toMatchObject({ filename: 'b.txt', size_bytes: 5 })
  expect(await promote(id)).toEqual(copy)
  expect((await run('files', 'list')).stdout).toContain(copy.id)
  expect((await run('containers', 'promote', 'sess_report', 'c.txt')).code).toBe(3)
  await run('files', 'delete', copy.id, '--yes')
})

test('gateway containers lists, ends and prunes', async () => {
  const { data: listed } = JSON.parse((await run('containers', 'list', '--json')).stdout)
  expect(listed).toMatchObject([
    { container_id: 'sess_report', files: 2, bytes: 8 },
    { container_id: 'mine', files: 1, bytes: 1 },
  ])
  expect((await run('containers', 'list')).stdout).toContain('sess_report')
  expect((await run('doctor')).stdout).toMatch(/containers +ok +3 files have their bytes/)
  const ended = await run('containers', 'kill', 'sess_report', '--yes')
  expect([ended.code, ended.stdout]).toEqual([0, 'Deleted sess_report\n'])
  expect(listBlobs()).toHaveLength(1)
  const again = await run('containers', 'kill', 'sess_report', '--yes')
  expect([again.code === 0, again.stderr]).toEqual([
    false,
    expect.stringContaining('Container not found'),
  ])
  expect((await run('containers', 'prune')).stdout).toBe('Ended 0, which had 0 bytes\n')
  const pruned = await run('containers', 'prune', '--unused-days', '0')
  expect(pruned.stdout).toBe('Ended 1, which had 1 bytes\n')
  expect(listBlobs()).toEqual([])
})

test.each([['-1'], ['0.5'], ['x'], ['1e9'], ['']])('prunes nothing for %j days', async days => {
  const { code, stderr } = await run('containers', 'prune', '--unused-days', days)
  expect([code === 0, stderr.length > 0]).toEqual([false, true])
})

test('gateway doctor and gateway tools say which sandbox holds', async () => {
  const off = await run('doctor')
  expect(off.stdout).toMatch(
    /sandbox +ok +none is enabled \(sandbox\.kind\): bubblewrap .*just-bash holds/,
  )
  expect((await run('tools', 'list')).stdout).toMatch(/shell +- +sandbox\.kind in the config/)
  const config = join(directory, 'gateway.yaml')
  writeFileSync(config, 'sandbox: { kind: just-bash }\n')
  const on = await run('doctor', '--config', config)
  expect(on.stdout).toContain('just-bash is enabled: ')
  expect((await run('tools', 'list', '--config', config)).stdout).toMatch(/bash +works/)
})

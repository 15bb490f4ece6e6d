import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, chownSync, copyFileSync, lstatSync, mkdtempSync, readdirSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LONG } from '../support/random.ts'
import { PROGRAM, runGateway } from '../support/server.ts'

/** The user of the server, who is not root and needs no entry in the list of users. */
const USER = 12_345

const home = mkdtempSync(join(tmpdir(), 'gateway-owners-'))
afterAll(() => rm(home, { recursive: true, force: true }))

/** The program, where that user can run it: a checkout may be in a directory of root's. */
const program = prepareProgram()

function prepareProgram(): string[] {
  chmodSync(home, 0o755)
  const [path = '', ...rest] = PROGRAM
  if (rest.length > 0) return PROGRAM
  const copy = join(home, 'gateway')
  copyFileSync(path, copy)
  chmodSync(copy, 0o755)
  return [copy]
}

const asUser = (command: string[]) => [
  ...['setpriv', '--reuid', `${USER}`, '--regid', `${USER}`, '--clear-groups'],
  ...command,
]

const canTry =
  process.geteuid?.() === 0 &&
  Bun.which('setpriv') !== null &&
  Bun.spawnSync(asUser([...program, '--version']), { cwd: '/' }).success

/** A data directory of that user, as a package would make it. */
async function makeDirectory(): Promise<string> {
  const data = mkdtempSync(join(home, 'data-'))
  await writeFile(join(data, 'gateway.yaml'), 'server: { port: 0 }\n')
  for (const path of [data, join(data, 'gateway.yaml')]) chownSync(path, USER, USER)
  return data
}

/** Lists what is in a directory and does not belong to that user. */
const listForeign = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter(name => {
      const { uid, gid } = lstatSync(join(directory, name))
      return uid !== USER || gid !== USER
    })
    .toSorted()

async function start(data: string, command: (words: string[]) => string[] = asUser) {
  const child = Bun.spawn(command([...program, 'serve', '--data', data, '--log', 'json']), {
    ...{ cwd: '/', stdout: 'pipe', stderr: 'pipe' },
  })
  const log = new Response(child.stderr).text()
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('"listening"')) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`It did not listen: ${await log}`)
    text += value
  }
  return {
    async stop() {
      child.kill('SIGTERM')
      await child.exited
      return log
    },
  }
}

async function init(data: string): Promise<void> {
  const { code, stderr } = await runGateway(['init', '--data', data], { program, cwd: '/' })
  expect([code, stderr]).toEqual([0, ''])
}

/** Commands that write, to a store, files, blobs or a directory of the gateway. */
const COMMANDS = [
  ['keys', 'create', '--name', 'one'],
  ['keys', 'update', 'one', '--limit', '5'],
  ['workspaces', 'create', '--name', 'Two', '--slug', 'two-N'],
  ['guardrails', 'create', '--name', 'three'],
  ['presets', 'create', 'four', '--body', 'PRESET'],
  ['files', 'upload', 'FILE'],
  ['try', 'sandbox/echo', 'Hello'],
  ['budgets', 'set', 'monthly', '--limit', '10'],
  [
    'destinations',
    'create',
    '--type',
    'webhook',
    '--name',
    'six',
    '--set',
    'url=https://a.example/',
  ],
  ['keys', 'delete', 'one', '--yes'],
  ['doctor'],
]

/** Of them one for each place that is written: the store, files, and what doctor looks at. */
const SOME = COMMANDS.filter(([noun]) => ['files', 'try', 'budgets', 'doctor'].includes(noun ?? ''))

/** Runs commands, in turns as root and as that user. */
async function runAll(data: string, isRootFirst = true, commands = COMMANDS): Promise<void> {
  const files = join(home, 'files')
  await mkdir(files, { recursive: true })
  await writeFile(join(files, 'FILE'), 'Hello there')
  await writeFile(join(files, 'PRESET'), JSON.stringify({ model: 'sandbox/echo' }))
  for (const [i, words] of commands.entries()) {
    const isRoot = (i % 2 === 0) === isRootFirst
    const args = words.map(word => (/^[A-Z]+$/.test(word) ? join(files, word) : word))
    const named = args.map(word => word.replace(/-N$/, `-${crypto.randomUUID().slice(0, 8)}`))
    const { code, stderr } = await runGateway([...named, '--data', data], {
      ...{ program: isRoot ? program : asUser(program), cwd: '/' },
    })
    expect([words, code, code === 0 ? '' : stderr]).toEqual([words, 0, ''])
  }
}

describe.skipIf(!canTry)(
  'what root and that user do in the data directory of a user (needs root)',
  () => {
    test('S-19 before, beside and after a server leaves every file to that user', async () => {
      const data = await makeDirectory()
      await init(data)
      await runAll(data)
      expect(listForeign(data)).toEqual([])
      const server = await start(data)
      await runAll(data, false, LONG ? COMMANDS : SOME)
      expect(listForeign(data)).toEqual([])
      expect(await server.stop()).not.toContain('failing')
      await runAll(data, true, SOME)
      expect(listForeign(data)).toEqual([])
      expect(await (await start(data)).stop()).toContain('stopped')
    })

    test('as a server, and as the one that takes over, does so too', async () => {
      const data = await makeDirectory()
      const first = await start(data)
      const second = await start(data, words => [...words, '--takeover'])
      await first.stop()
      await runAll(data, true, SOME)
      await second.stop()
      expect(listForeign(data)).toEqual([])
      expect(await (await start(data)).stop()).toContain('stopped')
    })

    test('by a backup that is restored does so too', async () => {
      const data = await makeDirectory()
      await init(data)
      await runAll(data, true, SOME)
      const backup = join(home, 'store.backup')
      const run = (...words: string[]) =>
        runGateway([...words, '--data', data], { program, cwd: '/' })
      const whole = await run('backup', backup, '--with-secret', '--with-files')
      expect([whole.code, whole.stderr]).toEqual([0, ''])
      expect((await run('restore', backup, '--force')).code).toBe(0)
      expect(listForeign(data)).toEqual([])
    })
  },
)

import { afterAll, afterEach, beforeEach, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../src/app/gateway.ts'
import {
  demand,
  type Fields,
  fill,
  fillDisabled,
  LIST,
  NUMBER_OR_NULL,
} from '../../src/cli/fields.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../../src/cli/noun.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

let out: string
let loaded: number
let stdout: { mockRestore(): void }

beforeEach(() => {
  out = ''
  loaded = 0
  stdout = spyOn(process.stdout, 'write').mockImplementation(text => {
    out += text
    return true
  })
})
afterEach(() => stdout.mockRestore())

const NewBoat = Type.Object({
  name: Type.String({ minLength: 2 }),
  length: Type.Optional(Type.Union([Type.Number(), Type.Null()])),
  tags: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
  disabled: Type.Optional(Type.Boolean()),
  port: Type.Optional(Type.String()),
})

/** The core module of a noun. */
const boats = {
  NewBoat,
  createBoat: (_: Gateway, actor: { kind: string }, input: object) => ({
    data: { by: actor.kind, ...input },
  }),
  listBoats: () => ({ data: [{ name: 'Ada', length: 7 }], total_count: 1 }),
  moveBoat: (_: Gateway, __: object, name: string, to: string | undefined) => ({
    data: { name, to: to ?? null },
  }),
  deleteBoat: () => ({ deleted: true }),
}

const verb = defineVerbs(
  async () => {
    loaded++
    return boats
  },
  { args: { name: 'what it is called' }, needs: { data: false } },
)

const FILE: Fields = { options: [], read: () => ({ name: 'from a file', tags: ['filed'] }) }
const PORT: Fields = { options: [], find: ({ config }) => ({ port: config.service_name }) }
const SETTINGS = [
  fill('length', '--length <metres>', 'how long it is', NUMBER_OR_NULL),
  fill('tags', '--tags <words>', 'with commas between', LIST),
  fillDisabled('out of use', 'in use'),
]
const NAME = fill('name', '--name <name>', 'what it is called')

const command = () =>
  defineNoun('boats', 'boats', [
    verb('create', 'make one', [FILE, ...SETTINGS, demand(NAME)], of =>
      withInput(of.NewBoat, of.createBoat),
    ),
    verb('berth', 'make one in a port', [FILE, PORT], of => withInput(of.NewBoat, of.createBoat)),
    verb('list', 'list them', [], of => of.listBoats).printAs({
      NAME: boat => boat.name,
      METRES: boat => boat.length,
    }),
    verb('move <name> [to]', 'move one', [], of => of.moveBoat),
    verb('delete <name>', 'delete one', [], of => of.deleteBoat).printAs(printDeleted),
  ])

const nowhere = join(directory, 'nowhere')

/** Returns what a line prints, for the data directory of this file or another. */
async function run(line: string, data = directory): Promise<string> {
  out = ''
  await command().parseAsync([...line.split(' '), '--data', data], { from: 'user' })
  return out
}

const jsonOf = async (line: string) => JSON.parse(await run(`${line} --json`))

test('a verb loads its core module when it runs, and not for its help', async () => {
  const help = command().commands.map(one => one.helpInformation())
  expect([help.length, loaded]).toEqual([5, 0])
  await run('list')
  expect(loaded).toBe(1)
})

test('--json prints what the core function returns, and nothing else', async () => {
  expect(await jsonOf('list')).toEqual({ data: [{ name: 'Ada', length: 7 }], total_count: 1 })
  expect(await jsonOf('delete Ada --yes')).toEqual({ deleted: true })
})

test('without it a verb prints the fields of `data`, or as its printer says', async () => {
  expect(await run('list')).toBe('NAME  METRES\nAda   7\n')
  expect(await run('move Ada Kiel')).toBe('name  Ada\nto    Kiel\n')
  expect(await run('delete Ada --yes')).toBe('Deleted Ada\n')
})

test('arguments follow the signature, with undefined for a missing one', async () => {
  expect((await jsonOf('move Ada Kiel')).data).toEqual({ name: 'Ada', to: 'Kiel' })
  expect((await jsonOf('move Ada')).data).toEqual({ name: 'Ada', to: null })
})

test('options fill the input: later ones win, omitted ones are absent, none is null', async () => {
  const { data } = await jsonOf('create --name Ada')
  expect(data).toEqual({ by: 'operator', name: 'Ada', tags: ['filed'] })
  const full = await jsonOf('create --name Ada --length none --tags a,b --disable')
  expect(full.data).toEqual({
    by: 'operator',
    name: 'Ada',
    length: null,
    tags: ['a', 'b'],
    disabled: true,
  })
})

test('fields that need a gateway are found when one is open', async () => {
  expect((await jsonOf('berth')).data).toMatchObject({ name: 'from a file', port: 'gateway' })
})

test('invalid input is refused before a gateway is opened, unless a field needs one', async () => {
  await expect(run('create --name A', nowhere)).rejects.toThrow('name: expected')
  await expect(run('berth', nowhere)).rejects.toThrow('There is no data of a gateway')
})

test('demanded options are mandatory, and the same ones elsewhere are not', () => {
  const [option] = demand(NAME).options
  expect([option?.mandatory, NAME.options[0]?.mandatory]).toEqual([true, false])
})

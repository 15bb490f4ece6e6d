import { Option } from 'commander'
import { invalid } from '../../base/errors.ts'
import { type Json, parseObject } from '../../base/json.ts'
import { PRESET_DIALECTS, type TextDialect } from '../../language/dialect.ts'
import { demand, type Fields, fill, offer, PAGE } from '../fields.ts'
import { BODY_SOURCES, isBody } from '../input.ts'
import { describeOthers } from '../lists.ts'
import { PRESETS } from '../names.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { actInWorkspace, createDialectOption } from '../options.ts'
import { print, printFields, printTable } from '../output.ts'

// A preset belongs to the workspace of the actor: the operator's, or the one that is named.
const verb = defineVerbs(
  async () => ({
    ...(await import('../../resources/presets.ts')),
    ...(await import('../../resources/presets/schema.ts')),
    ...(await import('../../resources/presets/operations.ts')).presets.operations,
    ...(await import('../../translation/dialects/presets.ts')),
    ...(await import('../../translation/dialects/registry.ts')),
  }),
  {
    args: { slug: 'its slug, or a beginning of one', version: 'its number' },
    names: { slug: PRESETS },
    actAs: actInWorkspace,
  },
)

const WORKSPACE = offer('--workspace <id>', 'another workspace, by id or slug')
const BODY: Fields = {
  options: [
    new Option('--body <file>', `the body: ${BODY_SOURCES}`).makeOptionMandatory(),
    createDialectOption(PRESET_DIALECTS),
  ],
  read: ({ body }: { body: string }) => readBody(body),
}
const CHANGE = [
  WORKSPACE,
  demand(fill('status', '--status <status>', 'active, disabled or archived')),
]

/** `gateway presets`: named configurations, by the same functions and rules as over HTTP. */
export const createPresetsCommand = () =>
  defineNoun('presets', 'named configurations', [
    verb(
      'create <slug>',
      'create a preset, or its next version, from the body of an inference request',
      [WORKSPACE, BODY],
      (core, { dialect }: { dialect: TextDialect }) => {
        const form = core.findPresetForm(dialect)
        return withInput(form.body, (gateway, actor, slug, body) =>
          core.createPreset(
            gateway,
            actor,
            slug,
            core.buildPresetDraft(gateway, actor, form, body),
          ),
        )
      },
    ).printAs(({ data }) => print(`${data.slug} is at version ${data.designated_version.version}`)),
    verb(
      'list',
      'list the presets of a workspace',
      [WORKSPACE, ...PAGE],
      core => core.list,
    ).printAs(
      {
        SLUG: preset => preset.slug,
        NAME: preset => preset.name,
        STATUS: preset => preset.status,
        UPDATED: preset => preset.updated_at,
      },
      describeOthers(({ memory: { presets } }) => presets.values().toArray()),
    ),
    verb('get <slug>', 'show a preset with its current version', [WORKSPACE], core => core.get),
    verb(
      'versions <slug> [version]',
      'list the versions of a preset, or show one',
      [WORKSPACE, ...PAGE],
      core =>
        withInput(core.PresetQuery, async (gateway, actor, slug, version, query) =>
          version === undefined
            ? core.listPresetVersions(gateway, actor, slug, query)
            : core.getPresetVersion(gateway, actor, slug, version),
        ),
    ).printAs(({ data }) => (Array.isArray(data) ? printVersions(data) : printFields({ ...data }))),
    verb(
      'update <slug>',
      'change whether a preset can be used',
      CHANGE,
      core => core.update,
    ).printAs(({ data }) => print(`${data.slug} is ${data.status}`)),
  ])

/** Reads a body as `BODY_SOURCES` says. Throws 400 unless it is a JSON object. */
async function readBody(file: string): Promise<Json> {
  const source = file === '-' ? Bun.stdin : Bun.file(file)
  const text = await (isBody(file) ? Promise.resolve(file) : source.text()).catch(() => {
    throw invalid(`--body: ${file} cannot be read: expected ${BODY_SOURCES}`)
  })
  const body = parseObject(text)
  if (!body) throw invalid('--body: expected a JSON object')
  return body
}

interface Version {
  version: number
  created_at: string
  config: { model?: unknown }
  system_prompt: string | null
}

const printVersions = (versions: Version[]): void =>
  printTable(
    ['VERSION', 'CREATED', 'MODEL', 'SYSTEM PROMPT'],
    versions.map(({ version, created_at, config: { model }, system_prompt }) => [
      version,
      created_at,
      typeof model === 'string' ? model : null,
      shorten(system_prompt),
    ]),
  )

const SHORT = 60
const shorten = (text: string | null): string | null =>
  text !== null && text.length > SHORT ? `${text.slice(0, SHORT)}…` : text

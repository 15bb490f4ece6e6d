import { Command } from 'commander'
import { invalid } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import { type Json, parseObject } from '../../core/kernel/json.ts'
import { TEXT_DIALECTS, type TextDialect } from '../../core/language/dialect.ts'
import { type CommonOptions, common, dialectOption, inputOf, paged } from '../options.ts'
import { output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface PresetOptions extends CommonOptions {
  workspace?: string
}

interface PageOptions extends PresetOptions {
  offset?: number
  limit?: number
}

interface CreateOptions extends PresetOptions {
  body: string
  dialect: TextDialect
}

/** `gateway presets`: configurations by name, by the same functions and rules as over HTTP. */
export const presetsCommand = () =>
  new Command('presets')
    .description('configurations by name')
    .addCommand(createCommand())
    .addCommand(paged(preset('list', 'list the presets of a workspace')).action(list))
    .addCommand(preset('get', 'show a preset as it is used').argument('<slug>').action(get))
    .addCommand(versionsCommand())
    .addCommand(updateCommand())

const createCommand = () =>
  preset('create', 'create a preset, or its next version, from the body of an inference request')
    .argument('<slug>')
    .requiredOption('--body <file>', 'the body in JSON, or - for the standard input')
    .addOption(dialectOption(Object.keys(TEXT_DIALECTS)))
    .action(create)

const versionsCommand = () =>
  paged(preset('versions', 'list the versions of a preset, or show one'))
    .argument('<slug>')
    .argument('[version]', 'its number')
    .action(versions)

const updateCommand = () =>
  preset('update', 'change whether a preset can be used')
    .argument('<slug>')
    .requiredOption('--status <status>', 'active, disabled or archived')
    .action(update)

const preset = (name: string, description: string) =>
  common(new Command(name).description(description)).option('--workspace <id>', 'another workspace, by id or slug')

async function create(slug: string, options: CreateOptions): Promise<void> {
  const { createPreset } = await import('../../core/catalog/presets.ts')
  const { makeDraft } = await import('../../core/dialects/presets.ts')
  const { findPresetForm } = await import('../../core/dialects/registry.ts')
  const form = findPresetForm(options.dialect)
  const body = inputOf(form.body, await bodyIn(options.body))
  await acting(options, async (gateway, actor) => {
    const draft = makeDraft(gateway, actor, form, body)
    output(options.json, await createPreset(gateway, actor, slug, draft), ({ data }) =>
      print(`${data.slug} is at version ${data.designated_version.version}`),
    )
  })
}

async function bodyIn(file: string): Promise<Json> {
  const source = file === '-' ? Bun.stdin : Bun.file(file)
  const text = await source.text().catch(() => {
    throw invalid('--body: the file cannot be read')
  })
  const body = parseObject(text)
  if (!body) throw invalid('--body: expected a JSON object')
  return body
}

async function list(options: PageOptions): Promise<void> {
  const { listPresets } = await import('../../core/catalog/presets.ts')
  const { PresetQuery } = await import('../../core/catalog/presets/schema.ts')
  const query = inputOf(PresetQuery, { offset: options.offset, limit: options.limit })
  await acting(options, (gateway, actor) =>
    output(options.json, listPresets(gateway, actor, query), ({ data }) =>
      printTable(
        ['SLUG', 'NAME', 'STATUS', 'UPDATED'],
        data.map(one => [one.slug, one.name, one.status, one.updated_at]),
      ),
    ),
  )
}

async function get(slug: string, options: PresetOptions): Promise<void> {
  const { getPreset } = await import('../../core/catalog/presets.ts')
  await acting(options, (gateway, actor) => output(options.json, getPreset(gateway, actor, slug), ({ data }) => printFields({ ...data })))
}

async function versions(slug: string, version: string | undefined, options: PageOptions): Promise<void> {
  const { getPresetVersion, listPresetVersions } = await import('../../core/catalog/presets.ts')
  const { PresetQuery } = await import('../../core/catalog/presets/schema.ts')
  const query = inputOf(PresetQuery, { offset: options.offset, limit: options.limit })
  await acting(options, async (gateway, actor) => {
    if (version !== undefined)
      return output(options.json, await getPresetVersion(gateway, actor, slug, version), ({ data }) => printFields({ ...data }))
    output(options.json, await listPresetVersions(gateway, actor, slug, query), ({ data }) =>
      printTable(
        ['VERSION', 'CREATED', 'MODEL', 'SYSTEM PROMPT'],
        data.map(one => [one.version, one.created_at, shown(one.config.model), shortened(one.system_prompt)]),
      ),
    )
  })
}

const shown = (model: unknown) => (typeof model === 'string' ? model : null)

const SHORT = 60
const shortened = (text: string | null) => (text !== null && text.length > SHORT ? `${text.slice(0, SHORT)}…` : text)

async function update(slug: string, options: PresetOptions & { status: string }): Promise<void> {
  const { PresetChange } = await import('../../core/catalog/presets/schema.ts')
  const { updatePreset } = await import('../../core/catalog/presets.ts')
  const change = inputOf(PresetChange, { status: options.status })
  await acting(options, async (gateway, actor) =>
    output(options.json, await updatePreset(gateway, actor, slug, change), ({ data }) => print(`${data.slug} is ${data.status}`)),
  )
}

/** Runs something as the operator in a workspace: the first, or the one that is named. */
async function acting(options: PresetOptions, use: (gateway: Gateway, actor: Actor) => void | Promise<void>): Promise<void> {
  const { workspaceBy } = await import('../../core/identity/workspaces.ts')
  await withGateway(options, (gateway, actor) => {
    const { workspace } = options
    const elsewhere = workspace === undefined ? {} : { workspace_id: workspaceBy(gateway, workspace).id }
    return use(gateway, { ...actor, ...elsewhere })
  })
}

import { invalid } from '../../base/errors.ts'
import { fillWorkspace, offer } from '../fields.ts'
import { readPieces } from '../input.ts'
import { defineVerbs, withInput } from '../noun.ts'
import { print } from '../output.ts'
import { openRowProgress } from '../progress.ts'

const verb = defineVerbs(() => import('../../limits/imports.ts'), {
  args: { export: 'the export as JSON, or - for standard input' },
})

const FIELDS = [
  fillWorkspace('where keys without a team belong, by id or slug'),
  offer('--yes', 'do it; otherwise it is only shown'),
]

/** `gateway import`: keys and budgets of LiteLLM and OpenRouter. */
export const createImportCommand = () =>
  verb(
    'import <export>',
    'take over keys and budgets from an export of LiteLLM or OpenRouter',
    FIELDS,
    (core, flags) =>
      withInput(core.ImportScope, async (gateway, actor, path: string, scope) => {
        const exported = await readJson(path)
        const progress = openRowProgress(flags, { few: FEW })
        const answer = flags.yes
          ? await core
              .importExport(gateway, actor, exported, scope, progress.show)
              .finally(() => progress.end())
          : await core.planImport(gateway, actor, exported, scope)
        if (answer.data.some(({ action }) => action === 'bad')) process.exitCode = 1
        return answer
      }),
  ).printAs(({ data }, { printList, flags }) => {
    printList(
      ['ROW', 'NAME', 'ACTION', 'SECRET', 'LIMIT', 'RESET', 'WORKSPACE', 'NEW KEY'],
      data.map(one => [
        ...[one.row, one.name, one.disabled ? 'create disabled' : one.action, one.secret],
        ...[one.limit, one.limit_reset],
        ...[one.workspace, one.key],
      ]),
    )
    for (const { row, remarks } of data) for (const remark of remarks) print(`${row}: ${remark}`)
    const count = data.filter(({ action }) => action === 'create').length
    print(
      flags.yes ? `Created ${count} of ${data.length}` : `--yes creates ${count} of ${data.length}`,
    )
  })

/** So many rows are imported before anybody looks: each is a transaction. */
const FEW = 500

/** Reads a JSON file of at most 32 MiB. */
async function readJson(path: string): Promise<unknown> {
  const { LARGEST_BODY } = await import('../../base/schema-builders.ts')
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const bytes of readPieces(path)) {
    pieces.push(bytes)
    size += bytes.length
    if (size > LARGEST_BODY) throw invalid(`export: expected at most ${LARGEST_BODY} bytes`)
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString())
  } catch {
    throw invalid('export: expected JSON')
  }
}

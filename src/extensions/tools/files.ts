import { Type } from '@sinclair/typebox'
import { getIsoTime } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import { type Json, readString } from '../../base/json.ts'
import { closed } from '../../base/schema-builders.ts'
import type { StoredFile } from '../../resources/files/store.ts'
import { findUsableFile, readStored, storeFile } from '../../resources/files.ts'
import type { ServerTool, ToolFunction, ToolInvocation, ToolResult } from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'
import { cutText, markAsData } from './untrusted-text.ts'
import { ToolFailure, toFailedResult } from './use-limit.ts'

/** Lists, reads, writes and edits the text files of the key's workspace (wire reference D.6). */
export const files: ServerTool<null> = {
  name: 'files',
  schema: Type.Object({}, closed),
  readOptions: () => null,
  findObstacle: () => null,
  listFunctions: () => [FUNCTION],
  describeUse: (_, invocation) => describe(invocation),
  run: async (world, invocation) => {
    const item = describe(invocation)
    try {
      return await runOperation(world, invocation, item)
    } catch (thrown) {
      // A full quota is for the model to tell, as is a file that is not there.
      const { text, isError } = toFailedResult(explain(thrown))
      return { text, isError, item: { ...item, error: text } }
    }
  },
}

const explain = (thrown: unknown) =>
  thrown instanceof ToolFailure || thrown instanceof GatewayError
    ? thrown
    : new ToolFailure('The bytes of the file cannot be reached')

const OPERATIONS = ['list', 'read', 'write', 'edit'] as const
type Operation = (typeof OPERATIONS)[number]

const FUNCTION: ToolFunction = {
  name: 'files',
  description:
    'Works with the text files that are stored for the user. list names the newest files; read ' +
    'returns one by file_id, or the newest of a filename; write stores content under a filename as ' +
    'a new file; edit replaces old_text, which must occur once, by new_text, and stores the outcome ' +
    'as a new file.',
  parameters: {
    type: 'object',
    properties: {
      operation: { type: 'string', enum: OPERATIONS },
      file_id: { type: 'string', description: 'read, edit: the file' },
      filename: { type: 'string', description: 'read, edit: in place of file_id; write: its name' },
      content: { type: 'string', description: 'write: the whole text' },
      old_text: { type: 'string', description: 'edit: what is replaced' },
      new_text: { type: 'string', description: 'edit: what takes its place' },
    },
    required: ['operation'],
    additionalProperties: false,
  },
}

const describe = ({ callId, input }: ToolInvocation): Json => ({
  call_id: callId,
  arguments: JSON.stringify(input),
  ...Object.fromEntries(
    ['operation', 'file_id', 'filename'].flatMap(name => {
      const value = readString(input[name])
      return value === null ? [] : [[name, value]]
    }),
  ),
})

type Run = (world: ExtensionWorld, invocation: ToolInvocation, item: Json) => Promise<ToolResult>

const runOperation: Run = (world, invocation, item) => {
  const operation = OPERATIONS.find(one => one === invocation.input.operation)
  if (!operation) throw new ToolFailure(`operation: expected one of ${OPERATIONS.join(', ')}`)
  return RUN[operation](world, invocation, item)
}

/** The files that a list names. */
const LISTED = 100
/** The most bytes of one operation (wire reference D.6). */
const LARGEST_TEXT = 20 * 1024 * 1024

const RUN: Record<Operation, Run> = {
  async list(world, { run }, item) {
    const range = { workspace_id: run.actor.workspace_id, now: getIsoTime(world) }
    const { files } = world.store
    const found = await files.listRange({ ...range, order: 'desc', limit: LISTED + 1 })
    const shown = found
      .slice(0, LISTED)
      .map(({ id, filename, mime_type, size_bytes, created_at }) => ({
        file_id: id,
        ...{ filename, mime_type, size_bytes, created_at },
      }))
    const text = JSON.stringify({ files: shown, has_more: found.length > LISTED })
    return { text: markAsData('names of stored files', text), isError: false, item }
  },
  async read(world, invocation, item) {
    const { file, text } = await readText(world, invocation)
    const named = { ...item, file_id: file.id, filename: file.filename }
    return { text: markAsData(`stored file ${file.filename}`, text), isError: false, item: named }
  },
  async write(world, invocation, item) {
    const filename = requireText(invocation.input, 'filename')
    const content = Buffer.from(requireText(invocation.input, 'content'))
    const file = await store(world, invocation, filename, content)
    return showStored(file, item)
  },
  async edit(world, invocation, item) {
    const { file: source, text } = await readText(world, invocation)
    const edited = replaceOnce(Buffer.from(text), invocation.input)
    const file = await store(world, invocation, source.filename, edited)
    return showStored(file, item, { source_file_id: source.id })
  },
}

function showStored(
  { id, filename, size_bytes }: StoredFile,
  item: Json,
  more: Json = {},
): ToolResult {
  const stored = { file_id: id, filename }
  const text = JSON.stringify({ status: 'ok', ...stored, size_bytes, ...more })
  return { text, isError: false, item: { ...item, ...stored, result: text } }
}

function requireText(input: Json, name: string): string {
  const text = input[name]
  if (typeof text === 'string' && text !== '') return text
  throw new ToolFailure(`${name}: expected a text`)
}

// A text is found in bytes in linear time; in a string it takes the product of the two lengths.
function replaceOnce(bytes: Buffer, input: Json): Buffer {
  const old = Buffer.from(requireText(input, 'old_text'))
  const { new_text = '' } = input
  if (typeof new_text !== 'string') throw new ToolFailure('new_text: expected a text')
  const at = bytes.indexOf(old)
  if (at === -1) throw new ToolFailure('old_text: the file does not have it')
  if (bytes.indexOf(old, at + 1) !== -1)
    throw new ToolFailure('old_text: the file has it more than once')
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at + old.length)]
  return Buffer.concat([before, Buffer.from(new_text), after])
}

/** Stores the bytes of a text as a new file, which may be downloaded. Throws 403 for a quota that is used up. */
async function store(
  world: ExtensionWorld,
  { run: { actor }, cancellation }: ToolInvocation,
  filename: string,
  bytes: Uint8Array,
): Promise<StoredFile> {
  if (bytes.length > LARGEST_TEXT)
    throw new ToolFailure(`A file may have ${LARGEST_TEXT} bytes at most`)
  if (cancellation.reason) throw cancellation.reason
  const { workspace_id } = actor
  return await storeFile(world, actor, { filename, workspace_id, downloadable: true }, once(bytes))
}

async function* once(bytes: Uint8Array) {
  yield bytes
}

/** Reads a text file by its id, or the newest of a name. */
async function readText(
  world: ExtensionWorld,
  invocation: ToolInvocation,
): Promise<{ file: StoredFile; text: string }> {
  const file = await findFile(world, invocation)
  if (!file.mime_type.startsWith('text/'))
    throw new ToolFailure(`The file is no text, but ${file.mime_type}`)
  if (file.size_bytes > LARGEST_TEXT)
    throw new ToolFailure(`The file has more than ${LARGEST_TEXT} bytes`)
  try {
    return { file, text: await new Response(await readStored(world, file)).text() }
  } catch (thrown) {
    throw thrown instanceof GatewayError ? new ToolFailure(thrown.message) : thrown
  }
}

async function findFile(
  world: ExtensionWorld,
  { input, run: { actor } }: ToolInvocation,
): Promise<StoredFile> {
  const id = readString(input.file_id)
  if (id === null)
    return await findNewest(world, actor.workspace_id, requireText(input, 'filename'))
  const file = await findUsableFile(world, actor.workspace_id, id)
  if (file) return file
  throw new ToolFailure(`There is no file ${cutText(id, 64)}`)
}

const PAGE = 1_000
/** The pages that are searched for a name. */
const MOST_PAGES = 10

async function findNewest(
  world: ExtensionWorld,
  workspace_id: string,
  filename: string,
): Promise<StoredFile> {
  const range = { workspace_id, now: getIsoTime(world), order: 'desc' as const, limit: PAGE }
  let after: string | undefined
  for (let page = 0; page < MOST_PAGES; page++) {
    const found = await world.store.files.listRange({ ...range, after })
    const file = found.find(one => one.filename === filename)
    if (file) return file
    after = found.at(-1)?.id
    if (found.length < PAGE) break
  }
  throw new ToolFailure(`There is no file named ${cutText(filename, 255)}`)
}

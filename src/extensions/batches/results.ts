import { yieldToEventLoop } from '../../base/clock.ts'
import type { BatchResult } from '../../observability/generations/store.ts'
import type { Actor } from '../../resources/actor.ts'
import { createFileId, Upload } from '../../resources/files.ts'

import type { Batch } from './store.ts'
import type { BatchWorld } from './world.ts'

/** How many results are read at once. */
const AT_ONCE = 50

/** Seals what came of a line, as answers are. */
export function sealOutcome(
  world: BatchWorld,
  batch_id: string,
  line: number,
  { isError, text }: LineOutcome,
): BatchResult {
  const nonce = Buffer.from(world.ids.secret(), 'hex').subarray(-12)
  const sealed = world.secrets.contentSeal().seal(text, buildContext(batch_id, line), nonce)
  return { batch_id, line, is_error: isError, sealed }
}

const buildContext = (batch_id: string, line: number): string => `${batch_id} ${line}`

// Where the secret was changed meanwhile, the one before opens it.
function openResult({ secrets }: BatchWorld, { batch_id, line, sealed }: BatchResult): string {
  const context = buildContext(batch_id, line)
  const text =
    secrets.contentSeal().open(sealed, context) ??
    secrets.previous()?.contentSeal().open(sealed, context)
  return (
    text ?? `${JSON.stringify({ id: null, custom_id: null, response: null, error: UNREADABLE })}\n`
  )
}

const UNREADABLE = { code: 'unreadable', message: 'It was sealed with another secret' }

/** Chooses the ids of the two files of a batch, before they are written. */
export const reserveFiles = (world: BatchWorld) => ({
  output_file_id: createFileId(world),
  error_file_id: createFileId(world),
})

/** Which of the two files of a batch is written, and the lines that have no result. */
interface ResultFile {
  id: string | null
  name: 'output' | 'error'
  others?: AsyncIterable<string>
}

/**
 * Writes the results of a batch that are answers, or those that are errors, into a file under its
 * reserved id, and returns the id; null without any. A file that is there already stays as it is:
 * a process that was killed has written it. Throws what `Upload` throws.
 */
export async function writeResults(
  world: BatchWorld,
  batch: Batch,
  { id, name, others }: ResultFile,
): Promise<string | null> {
  if (id === null) return null
  if (await world.store.files.find(id)) return id
  const upload = await Upload.open(world, buildOwner(batch), {
    id,
    filename: `${batch.id}_${name}.jsonl`,
    purpose: 'batch_output',
    downloadable: true,
    takesAnything: true,
    expires_after: batch.output_expires_after,
  })
  try {
    let isEmpty = true
    for await (const text of joinTexts(readTexts(world, batch, name === 'error'), others)) {
      isEmpty = false
      await upload.write(Buffer.from(text))
    }
    return isEmpty ? null : (await upload.finish()).id
  } finally {
    await upload.discard()
  }
}

async function* joinTexts(first: AsyncIterable<string>, then?: AsyncIterable<string>) {
  yield* first
  if (then) yield* then
}

async function* readTexts(world: BatchWorld, { id }: Batch, isError: boolean) {
  let after = 0
  for (;;) {
    const results = await world.store.batches.listResults(id, after, AT_ONCE)
    for (const result of results) if (result.is_error === isError) yield openResult(world, result)
    const last = results.at(-1)
    if (!last) return
    after = last.line
    await yieldToEventLoop()
  }
}

// Its key may be gone.
const buildOwner = ({ workspace_id, key_hash, user_id }: Batch): Actor => ({
  kind: 'inference',
  ...{ workspace_id, key_hash, user_id },
})

/** What came of one line, as its file has it. */
export interface LineOutcome {
  isError: boolean
  text: string
  /** Whether it was written with the record of its call. */
  isOnRecord?: boolean
}

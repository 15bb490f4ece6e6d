import type { Explanation } from '../../../../core/inference/explain.ts'
import type { Transcript } from '../../../../core/telemetry/transcripts.ts'
import type { Remote } from '../../../remote.ts'
import type { CallRecord, PastExplanation } from '../../source.ts'

/**
 * Explains a finished call of a gateway elsewhere: its record and what is kept of its texts, asked
 * again as a dry run with the same key. Throws what the gateway refuses it with.
 */
export async function explainRemoteCall(remote: Remote, id: string): Promise<PastExplanation> {
  const { rebuildRequest } = await import('../../../../core/dialects/past-request.ts')
  const { findDialect } = await import('../../../../core/dialects/registry.ts')
  const call = await read<CallRecord>(remote, `/generation?id=${encodeURIComponent(id)}`)
  const content = await readInput(remote, id)
  const { dialect, body, unknown } = rebuildRequest(call, content)
  const debug = { dry_run: true, ...(call.key_hash === null ? {} : { key: call.key_hash }) }
  const explanation = await remote.ask('POST', findDialect(dialect).path, { ...body, debug })
  return { explanation: explanation as Explanation, unknown }
}

const read = async <Data>(remote: Remote, path: string): Promise<Data> =>
  ((await remote.ask('GET', path)) as { data: Data }).data

// Most gateways keep no texts, and say so with 404.
async function readInput(remote: Remote, id: string): Promise<Transcript['input'] | null> {
  try {
    const path = `/generation/content?id=${encodeURIComponent(id)}`
    return (await read<Pick<Transcript, 'input'>>(remote, path)).input
  } catch (thrown) {
    if ((thrown as { type?: unknown }).type === 'not_found') return null
    throw thrown
  }
}

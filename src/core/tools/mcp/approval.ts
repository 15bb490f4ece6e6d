import { invalid } from '../../errors.ts'
import { isObject, type Json, parseObject, readString } from '../../kernel/json.ts'

/** An answer of the client to a request for its approval. */
export interface ApprovalDecision {
  /** The id of the request. */
  id: string
  server_label: string
  /** The tool's own name. */
  name: string
  input: Json
  isApproved: boolean
  /** Why not, in the client's words; null if it says nothing. */
  reason: string | null
}

/** The item that asks the client for its approval (wire reference D.4). */
export const buildApprovalRequest = (
  id: string,
  { server_label, name }: { server_label: string; name: string },
  input: Json,
): Json => ({
  ...{ type: 'mcp_approval_request', id, server_label, name },
  arguments: JSON.stringify(input),
})

/**
 * Reads the client's decisions from the items of its input: each `mcp_approval_response` with the
 * `mcp_approval_request` that it names, once. Throws 400 for a response without its request, for
 * two that contradict each other, and for arguments that are no JSON object. `field` is the list's.
 */
export function readApprovals(items: unknown[], field: string): ApprovalDecision[] {
  const objects = items.map(item => (isObject(item) ? item : {}))
  const requests = new Map(
    objects
      .filter(({ type }) => type === 'mcp_approval_request')
      .map(request => [request.id, request] as const),
  )
  const decisions = new Map<string, ApprovalDecision>()
  objects.forEach((response, i) => {
    if (response.type !== 'mcp_approval_response') return
    const decision = readDecision(response, requests.get(response.approval_request_id), field, i)
    const earlier = decisions.get(decision.id)
    if (earlier && earlier.isApproved !== decision.isApproved)
      throw invalid(`${field}.${i}.approve: expected one answer to ${decision.id}`, `${field}.${i}`)
    decisions.set(decision.id, decision)
  })
  return [...decisions.values()]
}

function readDecision(
  response: Json,
  request: Json | undefined,
  field: string,
  i: number,
): ApprovalDecision {
  const [id, label, name] = [request?.id, request?.server_label, request?.name].map(readString)
  if (id == null || label == null || name == null)
    throw invalid(
      `${field}.${i}.approval_request_id: expected the id of an mcp_approval_request in the input`,
      `${field}.${i}.approval_request_id`,
    )
  if (typeof response.approve !== 'boolean')
    throw invalid(`${field}.${i}.approve: expected true or false`, `${field}.${i}.approve`)
  const input = parseObject(readString(request?.arguments) || '{}')
  if (!input)
    throw invalid(
      `${field}.${i}: expected its request’s arguments as a JSON object`,
      `${field}.${i}`,
    )
  const reason = readString(response.reason)
  return { id, server_label: label, name, input, isApproved: response.approve, reason }
}

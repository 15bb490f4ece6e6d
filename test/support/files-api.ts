/** A file as it has arrived. */
interface Kept {
  id: string
  filename: string
  purpose: string
  type: string
  bytes: Uint8Array
}

export type FilesApis = ReturnType<typeof openFilesApis>

/**
 * Opens a server with OpenAI’s files API below /openai and Anthropic’s below /anthropic, for the
 * keys `sk-openai-own-key` and `sk-anthropic-own-key`. `refuse` may answer first.
 */
export function openFilesApis(refuse?: (path: string) => Response | undefined) {
  const kept: Kept[] = []
  const seen: { method: string; path: string; headers: Headers }[] = []
  const show = ({ id, filename, purpose, type, bytes }: Kept, name: string) =>
    name === 'openai'
      ? {
          ...{
            id,
            object: 'file',
            bytes: bytes.length,
            created_at: 1_700_000_000,
            filename,
            purpose,
          },
          ...{ status: 'processed', expires_at: null },
        }
      : {
          ...{ id, type: 'file', filename, mime_type: type, size_bytes: bytes.length },
          ...{ created_at: '2026-01-02T03:04:05Z', downloadable: true },
        }
  const server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      const { pathname, search, searchParams } = new URL(request.url)
      const [, name = '', , id, content] = pathname.split('/')
      const { method, headers } = request
      seen.push({ method, path: pathname + search, headers })
      const refusal = refuse?.(pathname)
      if (refusal) return refusal
      const isAllowed =
        name === 'openai'
          ? headers.get('authorization') === 'Bearer sk-openai-own-key'
          : headers.get('x-api-key') === 'sk-anthropic-own-key' &&
            headers.get('anthropic-beta') === 'files-api-2025-04-14'
      if (!isAllowed) return Response.json({ error: { message: 'no' } }, { status: 401 })
      if (method === 'POST') {
        const form = await request.formData()
        const file = form.get('file') as File
        const made = {
          ...{ id: `file-${kept.length}`, filename: file.name, type: file.type },
          ...{ purpose: String(form.get('purpose')), bytes: await file.bytes() },
        }
        kept.push(made)
        return Response.json(show(made, name))
      }
      const found = kept.find(file => file.id === id)
      if (id === undefined) {
        const after = searchParams.get('after') ?? searchParams.get('after_id')
        const start = kept.findIndex(file => file.id === after) + 1
        const end = start + Number(searchParams.get('limit') ?? 100)
        const data = kept.slice(start, end).map(file => show(file, name))
        return Response.json({ data, has_more: end < kept.length, first_id: null, last_id: null })
      }
      if (!found) return Response.json({ error: { message: `No ${id}` } }, { status: 404 })
      if (content === 'content') return new Response(Buffer.from(found.bytes))
      if (method === 'DELETE') {
        kept.splice(kept.indexOf(found), 1)
        return Response.json({ id, deleted: true })
      }
      return Response.json(show(found, name))
    },
  })
  return {
    ...{ kept, seen, url: `http://127.0.0.1:${server.port}` },
    close: () => server.stop(true),
  }
}

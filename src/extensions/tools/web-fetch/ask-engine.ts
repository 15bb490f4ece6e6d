import { checkUntrustedUrl } from '../../../network/untrusted-url.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'
import { describeStatus, readJson, sendToEngine } from '../web-search/search.ts'
import type { ConfiguredFetchEngine } from './choose-engine.ts'
import type { PageQuestion, ReadPage } from './engine.ts'

/**
 * Has a service read a page. It is told URLs of public hosts only: it cannot read others, and they
 * may be secret. Throws `ToolFailure` with a sentence that has nothing of the service's own
 * words, which might repeat the key, and `invalid_request` for a URL that may not be called.
 */
export async function askFetchEngine(
  world: UpstreamWorld,
  { engine, settings }: ConfiguredFetchEngine,
  question: PageQuestion,
  limit: UseLimit,
): Promise<ReadPage> {
  await limit.race(checkUntrustedUrl(world, question.url))
  const branch = limit.open()
  try {
    const request = engine.buildRequest(question, settings)
    const incoming = await sendToEngine(world, engine, settings, request, branch)
    if (incoming.status !== 200)
      throw new ToolFailure(describeStatus(`The service ${engine.name}`, 'pages', incoming.status))
    const page = engine.readPage(await readJson(incoming))
    if (page === null) throw new ToolFailure(`The service ${engine.name} sent no page`)
    if ('failed' in page) throw describeUnread(engine.name, page.failed)
    return page
  } finally {
    limit.release(branch)
  }
}

const describeUnread = (name: string, status: number | null): ToolFailure =>
  new ToolFailure(
    status === null
      ? `The service ${name} could not read the page`
      : `The service ${name} could not read the page, which answered with the status ${status}`,
    status === null ? {} : { httpStatus: status },
  )

import { Command } from 'commander'
import { type CommonOptions, common, inputOf, numeric } from '../options.ts'
import { dollars, output, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

/** `gateway generations`: finished calls. */
export const generationsCommand = () =>
  new Command('generations')
    .description('finished calls')
    .addCommand(common(new Command('list').description('list the newest calls')).option('--limit <n>', 'how many', numeric).action(list))
    .addCommand(common(new Command('get').description('show a call').argument('<id>')).action(get))

async function list(options: CommonOptions & { limit?: number }): Promise<void> {
  const { listGenerations, RecentQuery } = await import('../../core/telemetry/generations.ts')
  const query = inputOf(RecentQuery, { limit: options.limit })
  await withGateway(options, async gateway =>
    output(options.json, await listGenerations(gateway, query), ({ data }) =>
      printTable(
        ['WHEN', 'MODEL', 'PROVIDER', 'IN', 'OUT', 'COST', 'MS', 'END', 'ID'],
        data.map(one => [
          one.created_at,
          one.model,
          one.provider_name,
          one.native_tokens_prompt,
          one.native_tokens_completion,
          dollars(one.total_cost),
          one.generation_time,
          one.cancelled ? 'cancelled' : one.finish_reason,
          one.id,
        ]),
      ),
    ),
  )
}

async function get(id: string, options: CommonOptions): Promise<void> {
  const { getGeneration } = await import('../../core/telemetry/generations.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await getGeneration(gateway, actor, id), ({ data }) => printFields(data)),
  )
}

import { CUT, fill, fillWorkspace } from '../fields.ts'
import { defineNoun, defineVerbs, printData, withInput } from '../noun.ts'
import { print } from '../output.ts'
import { learnSiteUrl } from '../site-url.ts'

const verb = defineVerbs(async () => import('../../extensions/videos.ts'), {
  args: { id: 'its id, as POST /videos answers it' },
})

/** `gateway videos`: the jobs that make videos at providers. */
export const createVideosCommand = () =>
  defineNoun('videos', 'jobs that make videos at providers', [
    verb(
      'list',
      'list the jobs of all workspaces, newest first',
      [
        fillWorkspace('those of one workspace, by id or slug'),
        fill('status', '--status <status>', 'pending, in_progress, completed, failed, …'),
        CUT,
      ],
      (core, flags) =>
        withInput(core.VideoQuery, async (gateway, actor, query) => {
          await learnSiteUrl(gateway, flags)
          return core.listVideos(gateway, actor, query)
        }),
    ).printAs({
      STATUS: ({ status }) => status,
      MODEL: ({ model }) => model,
      PROVIDER: ({ provider }) => provider,
      COST: ({ usage }) => usage?.cost ?? null,
      BEGUN: ({ created_at }) => created_at,
      ID: ({ id }) => id,
    }),
    verb('get <id>', 'show a job', [], (core, flags) => async (gateway, actor, id) => {
      await learnSiteUrl(gateway, flags)
      return core.showVideoJob(gateway, actor, id)
    }).printAs(printData),
    verb(
      'cancel <id>',
      'end a job, at its provider too where that can be: it costs nothing',
      [],
      core => (gateway, actor, id) => core.cancelVideo(gateway, actor, id),
    ).printAs((_, { named }) => print(`The server ends ${named}`)),
    verb(
      'secret',
      'show the secret that signs what a workspace’s callbacks are told',
      [fillWorkspace('of this workspace, by id or slug; else of the default one')],
      core => withInput(core.VideoSecretQuery, core.showCallbackSecret),
    ).printAs(({ data }) => print(data.secret)),
  ])

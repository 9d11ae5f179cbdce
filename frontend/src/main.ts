import { mount } from 'svelte';
import './app.css';
import App from './App.svelte';
import { ping, createChatApi, listModels, watchConnection } from './lib/api';
import { Conversation } from './lib/chat/conversation.svelte';
import { StoredConversations } from './lib/chat/conversation_list.svelte';
import { browserKey, newId } from './lib/ui/identity';
import { LiveStatus } from './lib/ui/live_status.svelte';
import { isChatModel, Models } from './lib/ui/models.svelte';
import { Connection } from './lib/ui/connection.svelte';
import { Router } from './lib/ui/router.svelte';
import { registerServiceWorker } from './lib/ui/service_worker';

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const connection = new Connection(ping, pause);
watchConnection((answered) => connection.report(answered));
addEventListener('offline', () => connection.report(false));
const models = new Models(listModels, pause);
void models.all();
const user = browserKey();
// The conversation is kept while other pages are shown; events are received only while it is shown.
const api = createChatApi(() => models.first(isChatModel));
const live = new LiveStatus(api, pause);
const conversation = new Conversation({ api, live, user, newId });
const conversations = new StoredConversations(api, user, pause);

mount(App, {
  target: document.getElementById('app')!,
  props: {
    router: new Router(window),
    connection,
    models,
    live,
    conversation,
    conversations,
    user,
  },
});
registerServiceWorker();

import { useState } from 'react';
import { OnlineChat } from './OnlineChat';

const SERVICE = import.meta.env.VITE_CHAT ?? 'https://chat.example.com/';

export function App() {
  const [isShown, setIsShown] = useState(true);
  const [count, setCount] = useState(0);
  return (
    <main>
      <h1>A shop in React</h1>
      <p>
        <button onClick={() => setIsShown(!isShown)}>{isShown ? 'Hide' : 'Show'} the chat</button> Replies:{' '}
        <output>{count}</output>
      </p>
      {isShown && <OnlineChat service={SERVICE} title="Questions" onReply={() => setCount((before) => before + 1)} />}
    </main>
  );
}
